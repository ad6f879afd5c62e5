package builds

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// QueueCounts are the numbers of unfinished command jobs of a queue.
type QueueCounts struct {
	Scheduled int // waiting for an agent
	Running   int // held by an agent
	Waiting   int // waiting for other jobs, a person or a slot in a concurrency group
}

// CountUnfinished returns the numbers of unfinished command jobs of a cluster, by queue id. Jobs without a
// queue are under "".
func CountUnfinished(q *db.Q, orgID, clusterID string) (map[string]QueueCounts, error) {
	counts := map[string]QueueCounts{}
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var queue string
		var state flow.JobState
		var n int
		if err := scan(db.ToText(&queue), &state, &n); err != nil {
			return none, err
		}
		c := counts[queue]
		switch {
		case state.Ended():
		case state.Held():
			c.Running += n
		case state == flow.Scheduled:
			c.Scheduled += n
		default:
			c.Waiting += n
		}
		counts[queue] = c
		return none, nil
	}, `
		SELECT j.queue_id, j.state, COUNT(*)
		FROM pipelines p
		JOIN builds b ON b.pipeline_id = p.id
		JOIN jobs j ON j.build_id = b.id
		WHERE p.organization_id = $1 AND p.deleted_at IS NULL AND b.finished_at IS NULL AND b.cluster_id = $2 AND j.type = $3 AND NOT j.retried
		GROUP BY j.queue_id, j.state`, orgID, clusterID, flow.Script)
	return counts, err
}

// Holders returns the agents of an organization that have accepted a job and not finished it.
func Holders(q *db.Q, orgID string) (map[string]bool, error) {
	ids, err := db.Strings(q, `SELECT j.agent_id FROM jobs j WHERE `+heldStates+` AND j.organization_id = $1 AND j.state <> 'assigned'`, orgID)
	holders := make(map[string]bool, len(ids))
	for _, id := range ids {
		holders[id] = true
	}
	return holders, err
}

// RunningByPipeline returns the numbers of jobs of a queue that agents hold, by pipeline id.
func RunningByPipeline(q *db.Q, queueID string) (map[string]int, error) {
	counts := map[string]int{}
	err := db.Each(q, func(scan db.Scan) error {
		var pipelineID string
		var n int
		err := scan(&pipelineID, &n)
		counts[pipelineID] = n
		return err
	}, `
		SELECT b.pipeline_id, COUNT(*) FROM jobs j JOIN builds b ON b.id = j.build_id
		WHERE j.queue_id = $1 AND `+heldStates+`
		GROUP BY b.pipeline_id`, queueID)
	return counts, err
}

// RunningByQueue returns how many jobs agents have, by the id of the queue.
func RunningByQueue(q *db.Q) (map[string]int, error) {
	counts := map[string]int{}
	err := db.Each(q, func(scan db.Scan) error {
		var queueID string
		var n int
		err := scan(db.ToText(&queueID), &n)
		counts[queueID] = n
		return err
	}, `SELECT j.queue_id, COUNT(*) FROM jobs j WHERE `+heldStates+` GROUP BY j.queue_id`)
	return counts, err
}
