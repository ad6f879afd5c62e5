package tasks

import (
	"context"
	"slices"
	"time"

	"stackyard/internal/platform/db"
)

// Leases of a process that died need not run out. On PostgreSQL the token of a lease begins with the name of its process,
// which all of its connections carry too (db.DB.Process). A process without any connection is dead, or cannot save what
// its tasks do. Others look for that with the poll of the bus, and release the leases when they find it twice: a process
// whose connections broke connects again sooner.

// orphanPause is the time between the two looks when a runner starts.
const orphanPause = 3 * time.Second

// token returns the token of a lease of this process.
func (r *Runner) token(id string) string {
	if process := r.db.Process(); process != "" {
		return process + ":" + id
	}
	return id
}

// watchOrphans releases leases of processes that died until ctx ends.
func (r *Runner) watchOrphans(ctx context.Context) {
	found := make(chan []string, 1)
	defer r.bus.OnPoll(func(q *db.Q) error {
		dead, err := deadProcesses(q, r.db.Process())
		if err == nil {
			select {
			case found <- dead:
			default:
			}
		}
		return err
	})()
	suspects := r.look(ctx) // a process that starts may replace one that died
	early := time.After(orphanPause)
	for {
		var dead []string
		select {
		case <-ctx.Done():
			return
		case <-early:
			dead = r.look(ctx)
		case dead = <-found:
		}
		for _, process := range dead {
			if slices.Contains(suspects, process) {
				r.releaseProcess(ctx, process)
			}
		}
		suspects = dead
	}
}

// look returns the processes that have leases and no connection.
func (r *Runner) look(ctx context.Context) (dead []string) {
	err := r.db.Read(ctx, func(q *db.Q) (err error) {
		dead, err = deadProcesses(q, r.db.Process())
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.log.Warn("look for tasks of dead processes failed", "error", err)
	}
	return dead
}

func (r *Runner) releaseProcess(ctx context.Context, process string) {
	now := r.clock()
	err := r.db.Write(ctx, func(q *db.Q) error { return releaseOf(q, process, now) })
	if err != nil {
		if ctx.Err() == nil {
			r.log.Warn("release tasks of a dead process failed", "process", process, "error", err)
		}
		return
	}
	r.log.Info("released tasks of a dead process", "process", process)
	for _, k := range r.kinds {
		k.hint(now)
	}
}

// deadProcesses returns the processes that have leases and no connection to a PostgreSQL database. It returns none where
// connections do not show their process, such as behind some proxies: then own has none either.
func deadProcesses(q *db.Q, own string) ([]string, error) {
	return db.Strings(q, `
		WITH alive AS (SELECT split_part(application_name, ' #', 2) AS process FROM pg_stat_activity)
		SELECT DISTINCT split_part(lease, ':', 1) FROM tasks
		WHERE lease IS NOT NULL AND strpos(lease, ':') > 0
			AND split_part(lease, ':', 1) NOT IN (SELECT process FROM alive)
			AND $1 IN (SELECT process FROM alive)`, own)
}

// releaseOf ends the leases of a process, as releaseAll does.
func releaseOf(q *db.Q, process string, now time.Time) error {
	_, err := q.Exec(`
		UPDATE tasks SET lease = NULL, run_at = LEAST(run_at, $1 + (attempts - 1) * (attempts - 1) * $2)
		WHERE lease IS NOT NULL AND split_part(lease, ':', 1) = $3`, db.Micros(now), time.Second.Microseconds(), process)
	return err
}
