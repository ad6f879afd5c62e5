package clusters

import (
	"time"

	"stackyard/internal/platform/db"
)

// RecordPolls stores that stacks polled queues at a time, unless a later poll is stored. Deleted queues are
// left out.
func RecordPolls(q *db.Q, queueIDs []string, at time.Time) error {
	in, arg := q.In("id", 2, queueIDs)
	_, err := q.Exec(`
		INSERT INTO queue_polls (queue_id, polled_at) SELECT id, CAST($1 AS BIGINT) FROM queues WHERE `+in+` ORDER BY id
		ON CONFLICT (queue_id) DO UPDATE SET polled_at = excluded.polled_at WHERE queue_polls.polled_at < excluded.polled_at`, db.Micros(at), arg)
	return err
}
