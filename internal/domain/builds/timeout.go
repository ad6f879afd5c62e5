package builds

import (
	"context"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// maxTimeoutRaise is by how many minutes a job can raise its timeout above the initial one.
const maxTimeoutRaise = 60

// SetTimeout changes the timeout of a running job, in minutes since its start. A job that has run for longer is
// stopped immediately. See moves.go about holder.
func (s *Service) SetTimeout(ctx context.Context, orgID, jobID, holder string, minutes int) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		j, err := JobByID(u.q, orgID, jobID)
		if err != nil {
			return err
		}
		if holder != "" && j.AgentID != holder || j.State != flow.Running {
			return core.Errorf(core.Unprocessable, "Only the timeout of a job that is running can be changed, by its agent")
		}
		if err := u.checkTimeout(j, minutes); err != nil {
			return err
		}
		_, err = u.q.Exec(`
			UPDATE jobs SET timeout_minutes = $2, initial_timeout = COALESCE(initial_timeout, timeout_minutes, 0) WHERE id = $1`, j.ID, minutes)
		if err != nil {
			return err
		}
		u.setDeadline(j.ID, flow.Running, j.StartedAt.Add(time.Duration(minutes)*time.Minute))
		return nil
	})
}

// checkTimeout returns an Unprocessable error for a timeout that the job cannot have.
func (u *unit) checkTimeout(j *Job, minutes int) error {
	if minutes < 1 {
		return core.Errorf(core.Unprocessable, "The timeout must be at least one minute")
	}
	initial, err := initialTimeout(u, j)
	if err != nil {
		return err
	}
	if initial > 0 && minutes > initial+maxTimeoutRaise {
		return core.Errorf(core.Unprocessable, "The timeout was %d minutes at first, and can be raised to at most %d", initial, initial+maxTimeoutRaise)
	}
	p, err := pipelines.ByID(u.q, pipelines.System(j.OrganizationID), u.build.PipelineID)
	if err != nil {
		return err
	}
	set, err := settings.Of(u.q, j.OrganizationID)
	if err != nil {
		return err
	}
	for _, most := range []*int{p.MaximumTimeout, core.OrNull(set.MaximumTimeout)} {
		if most != nil && minutes > *most {
			return core.Errorf(core.Unprocessable, "The timeout can be at most %d minutes here", *most)
		}
	}
	return nil
}

// initialTimeout returns the first timeout of a job, 0 for none.
func initialTimeout(u *unit, j *Job) (minutes int, err error) {
	err = u.q.QueryRow(`SELECT COALESCE(initial_timeout, timeout_minutes, 0) FROM jobs WHERE id = $1`, j.ID).Scan(&minutes)
	return minutes, err
}
