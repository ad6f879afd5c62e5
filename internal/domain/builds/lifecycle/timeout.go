package lifecycle

import (
	"context"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// maxTimeoutRaise is by how many minutes a job can raise its timeout above the initial one.
const maxTimeoutRaise = 60

// SetTimeout changes the timeout of a running job, in minutes since its start. A job that has run for longer is
// stopped immediately. See moves.go about holder.
func (s *Service) SetTimeout(ctx context.Context, orgID, jobID, holder string, minutes int) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		j, err := builds.JobByID(u.q, orgID, jobID)
		if err != nil {
			return err
		}
		if holder != "" && j.AgentID != holder || j.State != flow.Running {
			return core.Errorf(core.Unprocessable, "Only the timeout of a job that is running can be changed, by its agent")
		}
		if err := u.checkTimeout(j, minutes); err != nil {
			return err
		}
		u.touched = true
		deadline := j.StartedAt.Add(time.Duration(minutes) * time.Minute)
		_, err = u.q.Exec(`
			UPDATE jobs SET timeout_minutes = $2, initial_timeout = COALESCE(initial_timeout, timeout_minutes, 0), deadline_at = $3 WHERE id = $1`,
			j.ID, minutes, db.Micros(deadline))
		u.timer.Due(deadline)
		return err
	})
}

// checkTimeout returns an Unprocessable error for a timeout that the job cannot have.
func (u *unit) checkTimeout(j *builds.Job, minutes int) error {
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
	most, err := u.maximumTimeout()
	if err != nil {
		return err
	}
	if most != 0 && minutes > most {
		return core.Errorf(core.Unprocessable, "The timeout can be at most %d minutes here", most)
	}
	return nil
}

// initialTimeout returns the first timeout of a job, 0 for none.
func initialTimeout(u *unit, j *builds.Job) (minutes int, err error) {
	err = u.q.QueryRow(`SELECT COALESCE(initial_timeout, timeout_minutes, 0) FROM jobs WHERE id = $1`, j.ID).Scan(&minutes)
	return minutes, err
}

// maximumTimeout returns the longest timeout that jobs of the build can get now, in minutes: the smaller maximum of
// the pipeline and the organization, 0 if neither has one.
func (u *unit) maximumTimeout() (minutes int, err error) {
	set, err := settings.Of(u.q, u.build.OrganizationID)
	if err != nil {
		return 0, err
	}
	minutes = set.MaximumTimeout
	p, err := pipelines.ByID(u.q, pipelines.System(u.build.OrganizationID), u.build.PipelineID)
	if core.KindOf(err) == core.NotFound {
		return minutes, nil // the pipeline is being deleted
	}
	if err == nil && p.MaximumTimeout != nil && (minutes == 0 || *p.MaximumTimeout < minutes) {
		minutes = *p.MaximumTimeout
	}
	return minutes, err
}

// capTimeouts applies the maximum timeout to new attempts of jobs: it may be less than when their builds were created.
func (u *unit) capTimeouts(attempts []*flow.Job) error {
	var ids []string
	for _, j := range attempts {
		if j.Type == flow.Script {
			ids = append(ids, j.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	most, err := u.maximumTimeout()
	if err != nil || most == 0 {
		return err
	}
	in, arg := u.q.In("id", 2, ids)
	_, err = u.q.Exec(`UPDATE jobs SET timeout_minutes = $1 WHERE `+in+` AND (timeout_minutes IS NULL OR timeout_minutes > $1)`, most, arg)
	return err
}
