package builds

import (
	"context"
	"errors"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/flow"
)

// onJob does one unit of work on the build of a job of an organization.
func (s *Service) onJob(ctx context.Context, orgID, jobID string, fn func(u *unit) error) error {
	return s.write(ctx, func(q *db.Q, then *followUps) error {
		var buildID string
		err := q.QueryRow(`SELECT build_id FROM jobs WHERE organization_id = $1 AND id = $2`, orgID, jobID).Scan(&buildID)
		if errors.Is(err, db.ErrNoRows) {
			return core.Errorf(core.NotFound, noJob)
		}
		if err != nil {
			return err
		}
		u, err := s.open(q, orgID, buildID, then)
		if err != nil {
			return err
		}
		if err := fn(u); err != nil {
			return err
		}
		return u.close()
	})
}

// The moves of a job that agents, stacks and the clock make. Each returns an Unprocessable error when
// the job is not in a state that allows it.

// Reserve holds a scheduled job for a stack.
func (s *Service) Reserve(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Reserve(jobID) })
}

// Return gives a job back that a stack or an agent has not begun.
func (s *Service) Return(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Return(jobID) })
}

// Assign offers a job to an agent.
func (s *Service) Assign(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Assign(jobID) })
}

// Accept notes that the agent took the job.
func (s *Service) Accept(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Accept(jobID) })
}

// Start notes that the agent began to run the job.
func (s *Service) Start(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Start(jobID) })
}

// Finish notes how the job ended, and with detail, which may be empty, why in words.
func (s *Service) Finish(ctx context.Context, orgID, jobID string, exit flow.Exit, detail string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		if detail != "" {
			if err := explainEnd(u.q, jobID, detail); err != nil {
				return err
			}
		}
		return u.run.Finish(jobID, exit)
	})
}

// Promise notes that a running job will end with an exit status.
func (s *Service) Promise(ctx context.Context, orgID, jobID string, status int) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Promise(jobID, status) })
}

// TimeOut asks for a running job to be stopped because it has run for too long.
func (s *Service) TimeOut(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.TimeOut(jobID) })
}

// Expire ends a scheduled job that nobody started in time.
func (s *Service) Expire(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Expire(jobID) })
}
