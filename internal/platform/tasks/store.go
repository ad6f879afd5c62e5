package tasks

import (
	"errors"
	"slices"
	"time"

	"stackyard/internal/platform/db"
)

// A conflictRule says in SQL how an existing task t changes when it is added again.
type conflictRule struct {
	moves string // condition: run_at becomes the new time
	again string // condition: again_at becomes the new time
	keeps string // again_at of a task without a lease: an attempt failed, and another follows
}

var (
	earlier   = &conflictRule{moves: `excluded.run_at < t.run_at`, again: `excluded.run_at < t.again_at`, keeps: `t.again_at`}
	overwrite = &conflictRule{moves: `TRUE`, again: `TRUE`, keeps: `NULL`}
)

// insert adds tasks. One that is leased keeps its times, and is marked to run again.
func insert(q *db.Q, when *conflictRule, tasks []Task) error {
	moves := `CASE WHEN t.lease IS NULL AND ` + when.moves
	return db.InsertLater(q, `INSERT INTO tasks AS t (kind, key, payload, due_at, run_at, attempts)`, tasks,
		func(t Task) []any {
			return []any{t.Kind, t.Key, db.JSON(t.Payload), db.Micros(t.RunAt), db.Micros(t.RunAt), 0}
		}, `
		ON CONFLICT (kind, key) DO UPDATE SET
			payload = excluded.payload,
			due_at = `+moves+` THEN excluded.due_at ELSE t.due_at END,
			run_at = `+moves+` THEN excluded.run_at ELSE t.run_at END,
			attempts = `+moves+` THEN 0 ELSE t.attempts END,
			again_at = CASE
				WHEN t.lease IS NULL THEN `+when.keeps+`
				WHEN t.again_at IS NULL OR `+when.again+` THEN excluded.run_at
				ELSE t.again_at END`)
}

// lease is the right to run a task until a time.
type lease struct {
	token string
	until time.Time
}

// nextRun returns the next time at which a task of a kind is due; the zero time when there is none.
func nextRun(q *db.Q, kind string) (next time.Time, err error) {
	err = q.QueryRow(`SELECT min(run_at) FROM tasks WHERE kind = $1`, kind).Scan(db.ToTime(&next))
	return next, err
}

// nextRuns returns, with one statement, the next times at which tasks of kinds are due. Kinds without tasks are
// omitted.
func nextRuns(q *db.Q, kinds []*kind) (map[string]time.Time, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	names := make([][]any, len(kinds))
	for i, k := range kinds {
		names[i] = []any{k.name}
	}
	values, args, err := q.Values(1, []string{"text"}, names)
	if err != nil {
		return nil, err
	}
	runs := make(map[string]time.Time, len(kinds))
	err = db.Each(q, func(scan db.Scan) (err error) {
		var kind string
		var next time.Time
		err = scan(&kind, db.ToTime(&next))
		if !next.IsZero() {
			runs[kind] = next
		}
		return err
	}, `
		WITH kinds (name) AS (`+values+`)
		SELECT k.name, (SELECT min(t.run_at) FROM tasks t WHERE t.kind = k.name) FROM kinds k`, args...)
	return runs, err
}

// claim leases the tasks of a kind that have been due for longest. It skips those that another process is
// claiming or changing.
func claim(q *db.Q, kind, token string, now, until time.Time, limit int) ([]*Due, error) {
	l := lease{token: token, until: until}
	due, err := db.All(q, func(scan db.Scan) (*Due, error) {
		d := &Due{Kind: kind, lease: l}
		return d, scan(&d.Key, db.ToText(&d.payload), db.ToTime(&d.DueAt), &d.Attempt, db.ToText(&d.LastError))
	}, `
		SELECT key, payload, due_at, attempts + 1, last_error FROM tasks
		WHERE kind = $1 AND run_at <= $2
		ORDER BY run_at
		LIMIT $3`+q.SkipLocked(), kind, db.Micros(now), limit)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	keys := make([]string, len(due))
	for i, d := range due {
		keys[i] = d.Key
	}
	condition, arg := q.In("key", 4, keys)
	_, err = q.Exec(`
		UPDATE tasks SET lease = $1, run_at = $2, attempts = attempts + 1
		WHERE kind = $3 AND `+condition, l.token, db.Micros(until), kind, arg)
	return due, err
}

// errLost is the error of ending a task that another process has leased or removed.
var errLost = errors.New("the task was not ended in time, and another may have taken it")

// holdsLease is the condition under which the process that runs a task can change it: it excludes processes
// whose lease has expired.
const holdsLease = `kind = $1 AND key = $2 AND lease = $3`

// complete ends a task, or lets it run again if it was added again meanwhile.
func complete(q *db.Q, d *Due) error {
	deleted, err := q.Exec(`DELETE FROM tasks WHERE `+holdsLease+` AND again_at IS NULL`, d.Kind, d.Key, d.token)
	if err != nil || deleted == 1 {
		return err
	}
	q.Announce(topic(d.Kind))
	return change(q, d, `due_at = again_at, run_at = again_at, again_at = NULL, lease = NULL, attempts = 0, last_error = NULL`)
}

// fail lets a task run again at a time.
func fail(q *db.Q, d *Due, at time.Time, reason string) error {
	q.Announce(topic(d.Kind))
	return change(q, d, `lease = NULL, run_at = $4, last_error = $5`, db.Micros(at), reason)
}

// releaseAll ends all leases of a SQLite database. A task that was tried before waits longer each time, at most to the
// end of its lease: it may be why its process died.
func releaseAll(q *db.Q, now time.Time) error {
	_, err := q.Exec(`
		UPDATE tasks SET lease = NULL, run_at = MIN(run_at, $1 + (attempts - 1) * (attempts - 1) * $2)
		WHERE lease IS NOT NULL`, db.Micros(now), time.Second.Microseconds())
	return err
}

// release lets another process run a task, as if it had not been claimed.
func release(q *db.Q, d *Due, now time.Time) error {
	q.Announce(topic(d.Kind))
	return change(q, d, `lease = NULL, run_at = $4, attempts = attempts - 1`, db.Micros(now))
}

// change changes a task whose lease d has.
func change(q *db.Q, d *Due, set string, args ...any) error {
	args = slices.Concat([]any{d.Kind, d.Key, d.token}, args)
	changed, err := q.Exec(`UPDATE tasks SET `+set+` WHERE `+holdsLease, args...)
	if err == nil && changed == 0 {
		return errLost
	}
	return err
}

// ensure adds a task of a kind unless there is one. Replicas that start together can all find none; the first one
// adds it, and the others change nothing.
func ensure(q *db.Q, kind string, at time.Time) error {
	var one int
	err := q.QueryRow(`SELECT 1 FROM tasks WHERE kind = $1`, kind).Scan(&one)
	if !errors.Is(err, db.ErrNoRows) {
		return err
	}
	_, err = q.Exec(`
		INSERT INTO tasks (kind, key, payload, due_at, run_at, attempts) VALUES ($1, '', $2, $3, $3, 0)
		ON CONFLICT (kind, key) DO NOTHING`, kind, db.JSON(nil), db.Micros(at))
	q.Announce(topic(kind))
	return err
}
