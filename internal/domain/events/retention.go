package events

import (
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

const (
	removalTask = "event-removal"
	removeEvery = time.Hour
	// removeBatch bounds the events that are removed in one transaction.
	removeBatch = 1000
)

// Background registers the removal of old events.
func (s *Service) Background(r *tasks.Runner) { r.Sweep(removalTask, removeEvery, s.removeOld) }

// removeOld removes some of the oldest events if they are too old and all consumers have processed them.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	var last int64
	err = q.QueryRow(`
		SELECT COALESCE(MAX(seq), 0) FROM (SELECT seq, created_at FROM events ORDER BY seq LIMIT $1) AS oldest
		WHERE created_at < $2 AND seq <= (SELECT MIN(seq) FROM event_cursors)`,
		removeBatch, db.Micros(s.clock().Add(-s.keep))).Scan(&last)
	if err != nil || last == 0 {
		return false, err
	}
	removed, err := q.Exec(`DELETE FROM events WHERE seq <= $1`, last)
	return removed == removeBatch, err
}
