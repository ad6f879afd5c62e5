// Package jobqueues updates the queues of jobs for packages that builds depends on.
package jobqueues

import (
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/db"
)

// MoveToDefault moves the jobs of a cluster that name no queue into its new default queue.
func MoveToDefault(q *db.Q, orgID, clusterID, queueID string) error {
	moved, err := db.Strings(q, `
		UPDATE jobs SET queue_id = $3 WHERE `+q.InOrder("jobs", "id", `type = 'script' AND queue_id IS NULL AND build_id IN (
			SELECT b.id FROM pipelines p
			JOIN builds b ON b.pipeline_id = p.id
			WHERE p.organization_id = $1 AND b.cluster_id = $2 AND b.finished_at IS NULL)`)+`
		RETURNING id`, orgID, clusterID, queueID)
	if err != nil {
		return err
	}
	return dispatch.SetQueue(q, queueID, moved...)
}
