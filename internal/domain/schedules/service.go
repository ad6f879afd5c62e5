package schedules

import (
	"context"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// runTask is the task kind that creates the builds of a schedule. Its key is the schedule's id.
const runTask = "schedule-run"

// create adds a schedule to a pipeline.
func (s *Service) create(ctx context.Context, p *pipelines.Pipeline, by *identity.User, body *scheduleFields) (Schedule, error) {
	now := s.clock()
	sched := Schedule{ID: core.NewID(), OrganizationID: p.OrganizationID, PipelineID: p.ID, Env: map[string]string{}, Enabled: true, CreatedBy: by, CreatedAt: now}
	body.applyTo(&sched)
	if err := sched.check(now, true); err != nil {
		return sched, err
	}
	err := s.db.Write(ctx, func(q *db.Q) error {
		if err := pipelines.CheckMutable(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		if err := checkCount(q, p.ID); err != nil {
			return err
		}
		if err := save(q, sched); err != nil {
			return err
		}
		return enqueue(q, &sched)
	})
	return sched, err
}

// update changes a schedule. Enabling it clears the last failure.
func (s *Service) update(ctx context.Context, p *pipelines.Pipeline, id string, body *scheduleFields) (Schedule, error) {
	var updated Schedule
	err := s.db.Write(ctx, func(q *db.Q) error {
		if err := pipelines.CheckMutable(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		sched, err := lockByID(q, id)
		if err != nil {
			return err
		}
		before := sched
		body.applyTo(&sched)
		if sched.Enabled && !before.Enabled {
			sched.clearFailure()
		}
		if err := sched.check(s.clock(), sched.Cronline != before.Cronline || !before.Enabled); err != nil {
			return err
		}
		if err := save(q, sched); err != nil {
			return err
		}
		updated = sched
		if sched.NextAt.Equal(before.NextAt) {
			return nil
		}
		return enqueue(q, &sched)
	})
	return updated, err
}

// delete removes a schedule.
func (s *Service) delete(ctx context.Context, p *pipelines.Pipeline, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := pipelines.CheckMutable(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		if _, err := scheduleRows.Exec(q, id, `DELETE FROM schedules WHERE organization_id = $1 AND pipeline_id = $2 AND id = $3`, p.OrganizationID, p.ID, id); err != nil {
			return err
		}
		return tasks.Remove(q, runTask, id)
	})
}

// Of returns the schedules of a pipeline, newest first. Visitors of a public pipeline see none.
func (s *Service) Of(ctx context.Context, p *pipelines.Pipeline) (schedules []Schedule, err error) {
	if p.Visited() {
		return nil, nil
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		schedules, _, err = list(q, p.OrganizationID, p.ID, maxPerPipe, 0)
		return err
	})
	return schedules, err
}

// enqueue makes the task of a schedule due at its next time, or removes it.
func enqueue(q *db.Q, s *Schedule) error {
	if s.NextAt.IsZero() {
		return tasks.Remove(q, runTask, s.ID)
	}
	return tasks.Set(q, tasks.Task{Kind: runTask, Key: s.ID, RunAt: s.NextAt})
}

// clearFailure forgets the failures of a schedule.
func (s *Schedule) clearFailure() { s.Failures, s.FailedMessage, s.FailedAt = 0, "", time.Time{} }
