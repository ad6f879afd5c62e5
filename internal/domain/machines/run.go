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

// run runs the agent of a machine and removes the machine. A job that the agent has not acquired is finished with the
// reason.
func (s *Service) run(ctx context.Context, m *Machine) {
	log := s.Log.With("machine", m.ID, "job", m.JobID, "queue", m.QueueID)
	log.Info("starting machine", "image", m.ImageRef)
	token := s.Agents.IssueMachineToken(m.ClusterID, m.ID, m.JobID, s.Clock().Add(tokenLife))
	err := s.compute(ctx, m, token)
	if err != nil && ctx.Err() == nil {
		log.Warn("machine failed", "error", err)
	}
	limit := cleanUpTimeout
	if ctx.Err() != nil {
		limit = stopTimeout
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if ctx.Err() == nil { // otherwise the server stops, and another machine takes the job
		if err == nil {
			err = errors.New("the agent exited without acquiring the job")
		}
		if err := s.finishUnstarted(last, m, err); err != nil {
			log.Warn("finish job failed", "error", err)
		}
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
