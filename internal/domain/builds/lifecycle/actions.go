package lifecycle

import (
	"context"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// Cancel cancels a build. reason may be empty.
func (s *Service) Cancel(ctx context.Context, orgID, buildID, reason string) error {
	return s.change(ctx, orgID, buildID, func(u *unit) error { return u.cancel(reason) })
}

// CancelJob cancels a job: immediately, or when its agent has stopped it.
func (s *Service) CancelJob(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.CancelJob(jobID) })
}

// Reprioritize replaces the priority of a command job.
func (s *Service) Reprioritize(ctx context.Context, orgID, jobID string, priority int) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		u.touched = true
		return reprioritize(u.q, orgID, jobID, priority)
	})
}

func reprioritize(q *db.Q, orgID, jobID string, priority int) error {
	n, err := q.Exec(`UPDATE jobs SET priority = $3 WHERE organization_id = $1 AND id = $2 AND type = $4`, orgID, jobID, priority, flow.Script)
	if err == nil && n == 0 {
		err = core.Errorf(core.Unprocessable, "Only command jobs have a priority")
	}
	if err != nil {
		return err
	}
	return dispatch.Reprioritize(q, jobID, priority)
}
