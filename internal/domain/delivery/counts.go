package delivery

import "stackyard/internal/platform/db"

// CountPending returns how many deliveries wait to be sent or tried again.
func CountPending(q *db.Q) (int, error) {
	return db.Count(q, `SELECT COUNT(*) FROM deliveries WHERE state = 'pending'`)
}
