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

// Background registers the background tasks of agents.
func (s *Service) Background(r *tasks.Runner) {
	r.HandleTx(resumeTask, s.endPause)
	r.Handle(endJobTask, tasks.Limits{Timeout: endJobTimeout}, s.endJob)
	r.Sweep(removalTask, removeEvery, s.removeOld)
	r.HandleTx(clusters.Removal, s.removeCluster)
	r.HandleTx(clusters.AddressesChanged, s.blockAgents)
}

// observe passes changes of jobs to the sessions of their agents and stores when agents finished jobs. It runs
// in the transaction that changes the jobs.
func (s *Service) observe(q *db.Q, b *builds.Build, moved []flow.JobChange) error {
	ended := map[time.Time][]string{} // agents, by the time at which their jobs ended
	for _, change := range moved {
		j := change.Job
		if j.AgentID == "" {
			continue
		}
		s.noteMove(q, b, change)
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
