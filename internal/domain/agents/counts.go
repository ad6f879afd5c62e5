package agents

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/db"
)

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

// CountMatching counts the connected agents of a job's queue that satisfy its agent query rules. It looks at the first
// maxSearched agents of the queue.
func CountMatching(q *db.Q, j *builds.Job) (n timeline.MatchingAgents, err error) {
	rules := dispatch.RuleSetOf(j.Work.Agents)
	counted := map[string]bool{} // an agent can have several jobs
	err = db.Each(q, func(scan db.Scan) error {
		var id, jobID string
		var tags []string
		var dispatched bool
		if err := scan(&id, db.ToJSON(&tags), &dispatched, db.ToText(&jobID)); err != nil || counted[id] {
			return err
		}
		counted[id] = true
		n.Connected++
		if !rules.Accepts(tags) {
			return nil
		}
		n.Matching++
		switch {
		case !dispatched:
			n.Paused++
		case jobID != "":
			n.Busy++
		}
		return nil
	}, `
		SELECT a.id, a.tags, a.paused_at IS NULL, j.id
		FROM agents a`+builds.JoinHeld+`
		WHERE a.queue_id = $1 AND a.organization_id = $2 AND a.state = 'connected' AND a.only_job_id IS NULL AND NOT a.ignored_in_dispatch
		LIMIT $3`, j.QueueID, j.OrganizationID, maxSearched)
	return n, err
}
