package buildexports

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// A pending is a finished build that is to be exported.
type pending struct {
	buildID   string
	orgID     string
	event     int64 // with which the build finished last; tells whether it finished again meanwhile
	attempts  int   // that failed
	nextAt    time.Time
	createdAt time.Time
}

// enqueue adds builds, each once, and the tasks of their organizations. A build that waits already starts anew.
func enqueue(q *db.Q, list []pending) error {
	if len(list) == 0 {
		return nil
	}
	err := db.InsertMany(q, `INSERT INTO build_exports (build_id, organization_id, event, attempts, next_at, created_at)`, list,
		func(p pending) []any {
			return []any{p.buildID, p.orgID, p.event, 0, db.Micros(p.nextAt), db.Micros(p.createdAt)}
		}, `ON CONFLICT (build_id) DO UPDATE SET event = excluded.event, attempts = 0, next_at = excluded.next_at, created_at = excluded.created_at`)
	if err != nil {
		return err
	}
	due := make([]tasks.Task, len(list))
	for i, p := range list {
		due[i] = tasks.Task{Kind: exportTask, Key: p.orgID, RunAt: p.nextAt}
	}
	return tasks.Add(q, due...)
}

// dueBuilds returns builds of an organization that are due, those that wait longest first.
func dueBuilds(q *db.Q, orgID string, now time.Time, limit int) ([]pending, error) {
	return db.All(q, func(scan db.Scan) (p pending, err error) {
		p.orgID = orgID
		return p, scan(&p.buildID, &p.event, &p.attempts, db.ToTime(&p.createdAt))
	}, `
		SELECT build_id, event, attempts, created_at FROM build_exports
		WHERE organization_id = $1 AND next_at <= $2
		ORDER BY next_at LIMIT $3`, orgID, db.Micros(now), limit)
}

// nextRun returns when the next build of an organization is due, the zero time if there is none.
func nextRun(q *db.Q, orgID string) (at time.Time, err error) {
	err = q.QueryRow(`SELECT MIN(next_at) FROM build_exports WHERE organization_id = $1`, orgID).Scan(db.ToTime(&at))
	return at, err
}

// remove removes a build, unless it has finished again meanwhile.
func remove(q *db.Q, p pending) error {
	_, err := q.Exec(`DELETE FROM build_exports WHERE build_id = $1 AND event = $2`, p.buildID, p.event)
	return err
}

// maxError bounds the characters of an error that are kept.
const maxError = 1000

// postpone records a failure.
func postpone(q *db.Q, p pending, at time.Time, cause error) error {
	_, err := q.Exec(`
		UPDATE build_exports SET attempts = attempts + 1, next_at = $3, last_error = $4
		WHERE build_id = $1 AND event = $2`, p.buildID, p.event, db.Micros(at), core.Cut(cause.Error(), maxError))
	return err
}
