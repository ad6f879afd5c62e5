package machines

import (
	"context"
	"errors"
	"fmt"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// run runs the agent of a machine and removes the machine.
func (s *Service) run(ctx context.Context, m *Machine) {
	s.Log.Info("starting machine", "machine", m.ID, "job", m.JobID, "queue", m.QueueID, "image", m.ImageRef, "place", m.Place)
	token := s.Agents.IssueMachineToken(m.ClusterID, m.ID, m.JobID, s.Clock().Add(tokenLife))
	if m.Place != "" {
		s.conclude(ctx, m, s.computeRemote(ctx, m, token))
	} else {
		s.conclude(ctx, m, s.compute(ctx, m, token))
	}
}

// conclude removes a machine whose agent has ended, or that this process leaves because the server stops. A job that
// the agent has not acquired is finished with the reason, or left to another machine if nothing was started.
func (s *Service) conclude(ctx context.Context, m *Machine, failure error) {
	log := s.Log.With("machine", m.ID, "job", m.JobID, "queue", m.QueueID, "place", m.Place)
	stopping := ctx.Err() != nil
	limit := cleanUpTimeout
	if stopping {
		limit = stopTimeout
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	unstarted := errors.Is(failure, errUnreachable) || errors.Is(failure, errNotStarted)
	switch {
	case stopping && m.Place != "" && !errors.Is(failure, errUnreachable):
		s.leave(last, m)
		return
	case stopping || unstarted: // another machine takes the job
	case failure == nil:
		failure = errors.New("the agent exited without acquiring the job")
		fallthrough
	default:
		if err := s.finishUnstarted(last, m, failure); err != nil {
			log.Warn("finish job failed", "error", err)
		}
	}
	if failure != nil && !stopping {
		log.Warn("machine failed", "error", failure)
	}
	s.forget(last, m)
	log.Info("machine removed")
}

// errAcquired means that an agent has acquired the job.
var errAcquired = errors.New("acquired")

// finishUnstarted finishes the job of a machine with the reason, unless its agent has acquired it.
func (s *Service) finishUnstarted(ctx context.Context, m *Machine, cause error) error {
	check := func(q *db.Q) error {
		if err := dispatch.Lock(q, m.JobID); err != nil {
			return err
		}
		reserved, err := dispatch.IsReservedBy(q, m.OrganizationID, m.ID, m.JobID, s.Clock())
		if err == nil && !reserved {
			err = errAcquired
		}
		return err
	}
	detail := core.Cut(fmt.Sprintf("The hosted agent could not be started: %v", cause), 3000)
	err := s.Builds.FinishUnstarted(ctx, m.OrganizationID, m.JobID, check, flow.Exit{Status: -1, SignalReason: "stack_error"}, detail)
	if errors.Is(err, errAcquired) || core.KindOf(err) == core.NotFound || core.KindOf(err) == core.Unprocessable {
		return nil
	}
	return err
}
