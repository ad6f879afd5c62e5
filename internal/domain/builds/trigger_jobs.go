package builds

import "stackyard/internal/platform/db"

// TriggerJobs returns the newest attempts of a build's trigger jobs in their order, at most limit.
func TriggerJobs(q *db.Q, buildID string, limit int) ([]*Job, error) {
	jobs, err := db.All(q, scanJob, selectJob+`
	WHERE j.build_id = $1 AND j.type = 'trigger' AND NOT j.retried
	ORDER BY j.position, j.id
	LIMIT $2`, buildID, limit)
	if err != nil {
		return nil, err
	}
	return jobs, describeJobs(q, jobs...)
}
