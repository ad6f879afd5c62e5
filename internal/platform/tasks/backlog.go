package tasks

import (
	"time"

	"stackyard/internal/platform/db"
)

// A Backlog is the tasks of one kind that are due.
type Backlog struct {
	Kind      string
	Due       int       // tasks that should have run by now
	Failing   int       // those of which an attempt has failed
	Oldest    time.Time // when the oldest was due at first
	LastError string    // of one that failed
}

// Backlogs returns the kinds of tasks that are due, by name.
func Backlogs(q *db.Q, now time.Time) ([]Backlog, error) {
	return db.All(q, func(row db.Scan) (b Backlog, err error) {
		return b, row(&b.Kind, &b.Due, &b.Failing, db.ToTime(&b.Oldest), db.ToText(&b.LastError))
	}, `
		SELECT kind, COUNT(*), COALESCE(SUM(CASE WHEN last_error IS NOT NULL THEN 1 ELSE 0 END), 0), MIN(due_at), MAX(last_error)
		FROM tasks WHERE due_at <= $1 GROUP BY kind ORDER BY kind`, db.Micros(now))
}
