package agents

import (
	"context"
	"fmt"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// start notes that an agent began to run its job. An agent that may not begin forgets the job without
// another word, so one that is being canceled has ended with that.
func (s *Service) start(ctx context.Context, orgID string, h builds.Holding) error {
	refused := s.builds.Start(ctx, orgID, h.JobID, h.AgentID)
	if core.KindOf(refused) != core.Unprocessable {
		return refused
	}
	var now builds.Holding
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		now, err = builds.HoldingOf(q, orgID, h.JobID)
		return err
	})
	if err != nil {
		return err
	}
	if now.State == flow.Canceling {
		exit := flow.Exit{Status: -1, SignalReason: "cancel"}
		if err := s.builds.Finish(ctx, orgID, h.JobID, h.AgentID, exit, "It was canceled before it began."); err != nil && core.KindOf(err) != core.Unprocessable {
			return err
		}
	}
	return refused
}

// ending is how a job ended, as its agent tells.
type ending struct {
	exit         flow.Exit
	missing      int  // chunks of the log that the agent could not send
	ignoreOnward bool // the agent wants no more jobs
}

// finish notes how a job ended. What the agent tells twice changes nothing the second time.
func (s *Service) finish(ctx context.Context, orgID string, h builds.Holding, end ending) error {
	if end.ignoreOnward {
		err := s.change(ctx, orgID, h.AgentID, func(_ *db.Q, a *Agent) error {
			a.Ignored = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	var detail string
	if end.missing > 0 {
		detail = fmt.Sprintf("Parts of its log could not be sent: %d.", end.missing)
	}
	return s.builds.Finish(ctx, orgID, h.JobID, h.AgentID, end.exit, detail)
}
