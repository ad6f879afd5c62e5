package schedules

import (
	"context"
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/cron"
)

// maxFailures is how many builds in a row cannot be created before a schedule is disabled.
const maxFailures = 10

// Background registers the task that creates the builds of schedules.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(runTask, tasks.Limits{Timeout: time.Minute}, s.run)
}

// run creates the build of a schedule whose time has come, and moves the schedule to its next time.
func (s *Service) run(ctx context.Context, t *tasks.Due) error {
	target, err := s.load(ctx, t.Key)
	if core.KindOf(err) == core.NotFound {
		return nil // deleted, with its pipeline or alone
	}
	if err != nil {
		return err
	}
	sched, now := target.schedule, s.clock()
	if !sched.Enabled || sched.NextAt.IsZero() {
		return nil
	}
	line, err := cron.Parse(sched.Cronline)
	if err != nil { // a time zone that this server does not know
		return s.fail(ctx, sched, time.Time{}, "The cronline "+err.Error())
	}
	if sched.NextAt.After(now) { // changed meanwhile
		return s.advance(ctx, sched, sched.NextAt, nil)
	}
	at, next := sched.due(line, now)
	if at.IsZero() || target.paused() {
		return s.advance(ctx, sched, next, nil)
	}
	draft, err := s.builds.Draft(ctx, target.pipeline, sched.creation(target.pipeline, target.creator, at))
	if err == nil {
		err = s.advance(ctx, sched, next, func(q *db.Q) error {
			_, _, err := draft.CreateTx(q)
			return err
		})
	}
	if kind := core.KindOf(err); err == nil || kind == 0 || kind == core.Unavailable {
		return err
	}
	return s.fail(ctx, sched, next, err.Error())
}

// A target is what a schedule builds.
type target struct {
	schedule Schedule
	pipeline *pipelines.Pipeline
	org      *identity.Organization
	creator  *identity.User // nil: no longer a member of the organization
}

// paused reports whether the schedule does not build for now, which is not a failure.
func (t *target) paused() bool { return t.pipeline.Archived() || t.org.Suspended }

// load returns what a schedule builds, or a NotFound error.
func (s *Service) load(ctx context.Context, id string) (*target, error) {
	t := &target{}
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if t.schedule, err = anyByID(q, id); err != nil {
			return err
		}
		orgID := t.schedule.OrganizationID
		if t.pipeline, err = pipelines.ByID(q, pipelines.System(orgID), t.schedule.PipelineID); err != nil {
			return err
		}
		if t.org, err = identity.OrganizationByID(q, orgID); err != nil {
			return err
		}
		if t.schedule.CreatedBy == nil {
			return nil
		}
		viewer, err := pipelines.ViewerAs(q, t.org, *t.schedule.CreatedBy)
		if viewer.Member != nil {
			t.creator = t.schedule.CreatedBy
		}
		return err
	})
	return t, err
}

// advance moves a schedule to its next time, in one transaction with do, which creates the build; nil: no build. If
// the schedule was changed meanwhile, its task runs at the new time instead.
func (s *Service) advance(ctx context.Context, seen Schedule, next time.Time, do func(q *db.Q) error) error {
	return s.change(ctx, seen, func(q *db.Q, sched *Schedule) error {
		sched.NextAt = next
		if do == nil {
			return nil
		}
		sched.clearFailure()
		return do(q)
	})
}

// fail records why the build of a schedule could not be created, and disables the schedule after several failures.
func (s *Service) fail(ctx context.Context, seen Schedule, next time.Time, reason string) error {
	err := s.change(ctx, seen, func(q *db.Q, sched *Schedule) error {
		sched.Failures++
		sched.FailedMessage, sched.FailedAt, sched.NextAt = core.Cut(reason, maxReason), s.clock(), next
		if sched.Failures < maxFailures && !next.IsZero() {
			return nil
		}
		sched.Enabled, sched.NextAt = false, time.Time{}
		return s.events.Write(q, sched.disabled())
	})
	if err == nil {
		s.log.Info("schedule failed", "schedule", seen.ID, "pipeline", seen.PipelineID, "failures", seen.Failures+1, "disabled", seen.Failures+1 >= maxFailures || next.IsZero(), "reason", core.Cut(reason, maxReason))
	}
	return err
}

// disabled returns the event of a schedule that was disabled after failures.
func (s *Schedule) disabled() events.Event {
	return events.Event{
		OrganizationID: s.OrganizationID,
		Name:           events.ScheduleDisabled,
		PipelineID:     s.PipelineID,
		Branch:         s.Branch,
		Facts: events.Facts{Schedule: &events.ScheduleFacts{
			ID: s.ID, Label: s.Label, Cronline: s.Cronline, Reason: s.FailedMessage, FailedAt: s.FailedAt,
		}},
	}
}

// change changes a schedule in a transaction, unless it was changed since it was seen: then only its task is queued.
func (s *Service) change(ctx context.Context, seen Schedule, fn func(q *db.Q, sched *Schedule) error) error {
	err := s.db.Write(ctx, func(q *db.Q) error {
		sched, err := lockByID(q, seen.ID)
		if err != nil {
			return err
		}
		if !sched.Enabled {
			return nil
		}
		if sched.NextAt.Equal(seen.NextAt) && sched.Cronline == seen.Cronline {
			if err := fn(q, &sched); err != nil {
				return err
			}
			if err := save(q, sched); err != nil {
				return err
			}
		}
		if sched.NextAt.IsZero() {
			return nil
		}
		return tasks.Set(q, tasks.Task{Kind: runTask, Key: sched.ID, RunAt: sched.NextAt})
	})
	if core.KindOf(err) == core.NotFound {
		return nil // deleted meanwhile
	}
	return err
}
