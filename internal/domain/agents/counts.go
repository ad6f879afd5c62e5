package agents

import "stackyard/internal/platform/db"

// CountByState returns how many agents are connected, by what they do: idle, busy, paused or stopping. busy is the
// number of jobs that agents have.
func CountByState(q *db.Q, busy int) (map[string]int, error) {
	var connected, stopping, paused int
	err := q.QueryRow(`
		SELECT COALESCE(SUM(CASE WHEN state = 'connected' AND paused_at IS NULL THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN state = 'stopping' THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN state = 'connected' AND paused_at IS NOT NULL THEN 1 ELSE 0 END), 0)
		FROM agents WHERE state IN ('connected', 'stopping')`).Scan(&connected, &stopping, &paused)
	busy = min(busy, connected)
	return map[string]int{"idle": connected - busy, "busy": busy, "paused": paused, "stopping": stopping}, err
}
