package builds

import (
	"context"
	"errors"
	"slices"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// onJob does one unit of work on the build of a job of an organization.
func (s *Service) onJob(ctx context.Context, orgID, jobID string, fn func(u *unit) error) error {
	buildID, err := s.buildOf(ctx, orgID, jobID)
	if err != nil {
		return err
	}
	return s.change(ctx, orgID, buildID, fn)
}

// The moves of a job that agents, stacks and the clock make. Each returns an Unprocessable error when
// the job is not in a state that allows it, or when holder names an agent that does not hold it; holder
// is empty when it is not an agent that makes the move. What a holder repeats changes nothing.

// Return gives a job back that an agent has not begun.
func (s *Service) Return(ctx context.Context, orgID, jobID, holder string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Return(jobID, holder) })
}

// Assign offers scheduled jobs of a build to agents, in one unit of work, and returns the ids of those
// that are assigned now. Jobs that have moved meanwhile, or that a stack has reserved, are left out.
func (s *Service) Assign(ctx context.Context, orgID, buildID string, offers []flow.Offer) (assigned []string, err error) {
	err = s.change(ctx, orgID, buildID, func(u *unit) error {
		free, err := unreserved(u.q, offers)
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
		s.buildIDs.add(jobOf{orgID, jobID}, buildID)
	}
	return assigned, nil
}

// unreserved returns the offers of jobs that no stack has reserved, nor can until the end of the write.
func unreserved(q *db.Q, offers []flow.Offer) ([]flow.Offer, error) {
	ids := make([]string, len(offers))
	for i, o := range offers {
		ids[i] = o.JobID
	}
	free, err := dispatch.Unreserved(q, ids)
	if err != nil {
		return nil, err
	}
	isFree := make(map[string]bool, len(free))
	for _, id := range free {
		isFree[id] = true
	}
	return slices.DeleteFunc(slices.Clone(offers), func(o flow.Offer) bool { return !isFree[o.JobID] }), nil
}

// AssignedTo returns the job that was offered to an agent which has not accepted it yet; "" when there
// is none.
func (s *Service) AssignedTo(ctx context.Context, orgID, agentID string) (jobID string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`
			SELECT j.id FROM jobs j
			WHERE j.agent_id = $2 AND `+heldStates+` AND j.organization_id = $1 AND j.state = 'assigned'
			ORDER BY j.id`, orgID, agentID).Scan(&jobID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return jobID, err
}

// heldStates is the condition of the index of jobs that agents have, in its own words: see
// flow.JobState.Held.
const heldStates = `j.agent_id IS NOT NULL AND j.state IN ('assigned', 'accepted', 'running', 'canceling', 'timing_out')`

// Acquire has an agent take a job that is scheduled, whoever has reserved it, or offered to it.
func (s *Service) Acquire(ctx context.Context, orgID, jobID, agentID string) error {
	return s.AcquireIf(ctx, orgID, jobID, agentID, func(*db.Q) error { return nil })
}

// AcquireIf is Acquire, except that may, which reads what it decides by, can refuse in the same transaction.
func (s *Service) AcquireIf(ctx context.Context, orgID, jobID, agentID string, may func(q *db.Q) error) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		if err := may(u.q); err != nil {
			return err
		}
		return u.run.Acquire(jobID, agentID)
	})
}

// Accept notes that the agent took the job.
func (s *Service) Accept(ctx context.Context, orgID, jobID, holder string) error {
	return s.submit(ctx, orgID, jobID, false, func(u *unit) error { return u.run.Accept(jobID, holder) })
}

// Start notes that the agent began to run the job.
func (s *Service) Start(ctx context.Context, orgID, jobID, holder string) error {
	return s.submit(ctx, orgID, jobID, false, func(u *unit) error { return u.run.Start(jobID, holder) })
}

// Finish notes how the job ended, and with detail, which may be empty, why in words.
func (s *Service) Finish(ctx context.Context, orgID, jobID, holder string, exit flow.Exit, detail string) error {
	return s.submit(ctx, orgID, jobID, true, func(u *unit) error {
		if err := u.run.Finish(jobID, holder, exit); err != nil || detail == "" {
			return err
		}
		return explainEnd(u.q, jobID, detail)
	})
}

// FinishUnstarted ends a scheduled job without an agent, as a stack says, and with detail why in words.
// may, which reads what it decides by, can refuse in the same transaction.
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

// Promise notes that a running job will end with an exit status. A promise that does not count is recorded and
// changes nothing else. It returns a Conflict error if another exit status was promised before.
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

// maxReason is how much is kept of why a job promises an exit status, in characters.
const maxReason = 1024

// TimeOut asks for a running job to be stopped because it has run for too long.
func (s *Service) TimeOut(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.TimeOut(jobID) })
}

// Expire ends a scheduled job that nobody started in time.
func (s *Service) Expire(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.Expire(jobID) })
}
