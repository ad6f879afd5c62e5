package agents

import (
	"slices"
	"strings"

	"stackyard/internal/builds"
	"stackyard/internal/db"
	"stackyard/internal/flow"
	"stackyard/internal/tasks"
)

// Background registers what is done about agents without a request.
func (s *Service) Background(r *tasks.Runner) {
	r.HandleTx(resumeTask, s.endPause)
	r.Handle(giveUpTask, tasks.Limits{Timeout: giveUpTimeout}, s.endForAgent)
	r.Sweep(removalTask, removeEvery, s.removeOld)
}

// observe has the sessions of agents learn what becomes of their jobs, within the transaction in which the
// jobs move.
func (s *Service) observe(q *db.Q, _ *builds.Build, moved []flow.JobChange) error {
	var ended []*flow.Job
	for _, change := range moved {
		j := change.Job
		if j.AgentID == "" {
			continue
		}
		q.Announce(topic(j.AgentID))
		if j.State.Ended() && change.From != flow.Assigned {
			ended = append(ended, j)
		}
	}
	// All writers lock agents in the same order.
	slices.SortFunc(ended, func(a, b *flow.Job) int { return strings.Compare(a.AgentID, b.AgentID) })
	for _, j := range ended {
		if err := jobEnded(q, j.AgentID, j.FinishedAt); err != nil {
			return err
		}
	}
	return nil
}
