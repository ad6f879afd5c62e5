package lifecycle

import (
	"context"
	"slices"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// onJob runs one unit of work on the build of a job.
func (s *Service) onJob(ctx context.Context, orgID, jobID string, fn func(u *unit) error) error {
	buildID, err := s.buildOf(ctx, orgID, jobID)
	if err != nil {
		return err
	}
	return s.change(ctx, orgID, buildID, fn)
}

// The methods below change the state of a job for an agent, a stack or a timer. Each returns an Unprocessable
// error if the state of the job does not allow it, or if holder is an agent that does not hold the job. holder
// is empty if the caller is not an agent. Repeating a call changes nothing.

// Return puts a job back into its queue that its agent has not started.
func (s *Service) Return(ctx context.Context, orgID, jobID, holder string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Return(jobID, holder) })
}

// Assign assigns scheduled jobs of a build to agents, in one unit of work, and returns the ids of those that
// were assigned. It skips jobs that changed state meanwhile or are reserved by a stack.
func (s *Service) Assign(ctx context.Context, orgID, buildID string, offers []flow.Offer) ([]string, error) {
	var assigned []string
	jobIDs := make([]string, len(offers))
	for i, o := range offers {
		jobIDs[i] = o.JobID
	}
	err := s.submit(ctx, orgID, buildID, jobIDs, false, func(u *unit) error {
		free, err := u.unreserved(offers)
		if err != nil {
			return err
		}
		offered, err := u.run.Offer(free)
		assigned = make([]string, len(offered))
		for i, o := range offered {
			assigned[i] = o.JobID
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, jobID := range assigned {
		s.buildIDs.Add(jobOf{orgID, jobID}, buildID)
	}
	return assigned, nil
}

// unreserved returns the offers of jobs that no stack has reserved, and keeps stacks from reserving them until
// the end of the transaction. With a build in memory it returns all, and updateRunnable finds out: then the unit of
// work is repeated.
func (u *unit) unreserved(offers []flow.Offer) ([]flow.Offer, error) {
	if u.unchecked {
		return offers, nil
	}
	ids := make([]string, len(offers))
	for i, o := range offers {
		ids[i] = o.JobID
	}
	free, err := dispatch.Unreserved(u.q, ids)
	if err != nil {
		return nil, err
	}
	isFree := make(map[string]bool, len(free))
	for _, id := range free {
		isFree[id] = true
	}
	return slices.DeleteFunc(slices.Clone(offers), func(o flow.Offer) bool { return !isFree[o.JobID] }), nil
}

// Acquire makes an agent accept a job that is scheduled, reserved or not, or assigned to it.
func (s *Service) Acquire(ctx context.Context, orgID, jobID, agentID string) error {
	return s.AcquireIf(ctx, orgID, jobID, agentID, func(*db.Q) error { return nil })
}

// AcquireIf is Acquire with a check in the same transaction that can refuse it.
func (s *Service) AcquireIf(ctx context.Context, orgID, jobID, agentID string, may func(q *db.Q) error) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		if err := may(u.q); err != nil {
			return err
		}
		return u.run.Acquire(jobID, agentID)
	})
}

// Accept records that the agent accepted the job.
func (s *Service) Accept(ctx context.Context, orgID, jobID, holder string) error {
	return s.report(ctx, orgID, jobID, false, func(u *unit) error { return u.run.Accept(jobID, holder) })
}

// Start records that the agent started the job.
func (s *Service) Start(ctx context.Context, orgID, jobID, holder string) error {
	return s.report(ctx, orgID, jobID, false, func(u *unit) error { return u.run.Start(jobID, holder) })
}

// Finish records the result of the job. detail says why for people, and may be empty.
func (s *Service) Finish(ctx context.Context, orgID, jobID, holder string, exit flow.Exit, detail string) error {
	return s.report(ctx, orgID, jobID, true, func(u *unit) error {
		if err := u.run.Finish(jobID, holder, exit); err != nil || detail == "" {
			return err
		}
		if u.details == nil {
			u.details = map[string]string{}
		}
		u.details[jobID] = detail
		return nil
	})
}

// FinishUnstarted finishes a scheduled job without an agent. detail says why for people. may is a check in the
// same transaction that can refuse it.
func (s *Service) FinishUnstarted(ctx context.Context, orgID, jobID string, may func(q *db.Q) error, exit flow.Exit, detail string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		if err := may(u.q); err != nil {
			return err
		}
		if err := u.run.FinishUnstarted(jobID, exit); err != nil {
			return err
		}
		return explainEnd(u.q, jobID, detail)
	})
}

// Promise records that a running job will end with an exit status. A promise that does not count has no other
// effect. It returns a Conflict error if another exit status was promised before.
func (s *Service) Promise(ctx context.Context, orgID, jobID, holder string, status int, reason string, counts bool) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		before := u.run.Edits()
		if err := u.run.Promise(jobID, holder, status, counts); err != nil || u.run.Edits() == before {
			return err
		}
		u.promises = map[string]string{jobID: core.Cut(reason, maxReason)}
		return nil
	})
}

// maxReason bounds the stored reason of a promise, in characters.
const maxReason = 1024

// TimeOut stops a running job that has run for too long.
func (s *Service) TimeOut(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.TimeOut(jobID) })
}

// Expire ends a scheduled job that no agent started in time.
func (s *Service) Expire(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Expire(jobID) })
}
