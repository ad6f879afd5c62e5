package agents

import (
	"maps"
	"slices"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// Background registers what is done about agents without a request.
func (s *Service) Background(r *tasks.Runner) {
	r.HandleTx(resumeTask, s.endPause)
	r.Handle(endJobTask, tasks.Limits{Timeout: endJobTimeout}, s.endJob)
	r.Sweep(removalTask, removeEvery, s.removeOld)
	r.HandleTx(clusters.Removal, s.removeCluster)
}

// observe has the sessions of agents learn what becomes of their jobs, within the transaction in which the
// jobs move.
func (s *Service) observe(q *db.Q, _ *builds.Build, moved []flow.JobChange) error {
	ended := map[time.Time][]string{} // agents, by when their jobs ended
	for _, change := range moved {
		j := change.Job
		if j.AgentID == "" {
			continue
		}
		q.Announce(topic(j.AgentID))
		if j.State.Ended() && change.From != flow.Assigned {
			ended[j.FinishedAt] = append(ended[j.FinishedAt], j.AgentID)
		}
	}
	if len(ended) > 1 {
		if err := q.LockAll("agents", "id", slices.Concat(slices.Collect(maps.Values(ended))...)); err != nil {
			return err
		}
	}
	for at, agentIDs := range ended {
		if err := updateLastJobFinished(q, agentIDs, at); err != nil {
			return err
		}
	}
	return nil
}
