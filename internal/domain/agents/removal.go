package agents

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// clusterBatch bounds the rows that one transaction removes of a deleted cluster, or takes out of it.
const clusterBatch = 1_000

// removeCluster takes some builds out of a deleted cluster or, when there are none, removes some of its
// agents. It has itself run again until there are no more, and then removes the cluster. The key of the
// task is the cluster's id.
func (s *Service) removeCluster(q *db.Q, t *tasks.Due) error {
	n, err := builds.LeaveCluster(q, t.Key, clusterBatch)
	if err == nil && n == 0 {
		n, err = q.DeleteSome(clusterBatch/2, "agents", `cluster_id = $1`, t.Key) // each has a row of its presence
	}
	if err != nil {
		return err
	}
	if n > 0 {
		return tasks.Add(q, tasks.Task{Kind: t.Kind, Key: t.Key, RunAt: s.clock()})
	}
	return clusters.RemoveDeleted(q, t.Key)
}
