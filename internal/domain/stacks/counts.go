package stacks

import (
	"time"

	"stackyard/internal/platform/db"
)

// CountByState returns how many stacks are registered, by whether they have called recently: connected or disconnected.
func CountByState(q *db.Q, now time.Time) (map[string]int, error) {
	var connected, all int
	err := q.QueryRow(`SELECT COALESCE(SUM(CASE WHEN connected_at > $1 THEN 1 ELSE 0 END), 0), COUNT(*) FROM stacks`,
		db.Micros(now.Add(-disconnectedAfter))).Scan(&connected, &all)
	return map[string]int{"connected": connected, "disconnected": all - connected}, err
}
