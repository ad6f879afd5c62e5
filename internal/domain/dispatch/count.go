package dispatch

import "stackyard/internal/platform/db"

// Waiting returns how many jobs of a queue wait for an agent, without those that a stack has reserved. It counts no
// more than most.
func Waiting(q *db.Q, queueID string, most int) (n int, err error) {
	err = q.QueryRow(`
		SELECT COUNT(*) FROM (SELECT 1 FROM runnable WHERE queue_id = $1 AND reserved_until IS NULL LIMIT $2) AS waiting`,
		queueID, most).Scan(&n)
	return n, err
}
