package agents

import (
	"stackyard/internal/domain/builds/retention"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// clusterBatch bounds the rows of a deleted cluster that one transaction changes or deletes.
const clusterBatch = 1_000

// removeCluster detaches some builds from a deleted cluster or, when there are none, deletes some of its
// agents. It repeats until there are no more, and then deletes the cluster. The key of the task is the
// cluster's id.
func (s *Service) removeCluster(q *db.Q, t *tasks.Due) error {
	n, err := retention.LeaveCluster(q, t.Key, clusterBatch)
	if err == nil && n == 0 {
		n, err = q.DeleteSome(clusterBatch/2, "agents", `cluster_id = $1`, t.Key) // each has a row in agent_presence
	}
	if err != nil {
		return err
	}
	if n > 0 {
		return tasks.Add(q, tasks.Task{Kind: t.Kind, Key: t.Key, RunAt: s.clock()})
	}
	return clusters.RemoveDeleted(q, t.Key)
}
