package agents

import (
	"fmt"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// start records that an agent starts its job. An agent that is refused drops the job without a further request,
// so start ends a job that is being canceled.
func (s *Service) start(r *route.Request, h builds.Holding) error {
	ctx, orgID := r.Context(), r.Org.ID
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
	if err := checkHolding(r, now, never); err != nil {
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

// ending is the end of a job as its agent reports it.
type ending struct {
	exit         flow.Exit
	missing      int  // log chunks that the agent could not send
	ignoreOnward bool // the agent takes no more jobs
}

// finish records how a job ended. Repeating it changes nothing.
func (s *Service) finish(r *route.Request, h builds.Holding, end ending) error {
	ctx, orgID := r.Context(), r.Org.ID
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
	err := s.builds.Finish(ctx, orgID, h.JobID, h.AgentID, end.exit, detail)
	if core.KindOf(err) == core.Unprocessable {
		if _, err := s.LoadRecentJob(r); err != nil {
			return err
		}
	}
	return err
}
