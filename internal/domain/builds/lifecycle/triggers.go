package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"strconv"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// startChild creates the build of a trigger job, or fails the job if that is not possible.
func (s *Service) startChild(ctx context.Context, at jobOf) error {
	trigger, target, err := s.loadTrigger(ctx, at)
	if err == nil && trigger == nil {
		return nil // it was canceled, or another process was faster
	}
	if err == nil {
		_, err = s.Create(ctx, target, trigger.creation(target)) // once, also after a crash
	}
	if kind := core.KindOf(err); err != nil && (kind == 0 || kind == core.Unavailable) {
		return err
	}
	return s.endStart(ctx, at, err)
}

// endStart continues a trigger job whose build was created, or fails it with the reason.
func (s *Service) endStart(ctx context.Context, at jobOf, failure error) error {
	return s.onTrigger(ctx, at, func(u *unit, j *flow.Job) error {
		switch {
		case j.State == flow.Canceled: // while the build was being created
			u.then.add(abandonBuild, at.orgID, j.ID)
			return nil
		case j.State != flow.Scheduled:
			return nil
		case failure == nil:
			return u.run.ChildCreated(j.ID)
		}
		if err := explainEnd(u.q, j.ID, failure.Error()); err != nil {
			return err
		}
		return u.run.ChildFinished(j.ID, false)
	})
}

// onTrigger runs one unit of work on the build of a trigger job.
func (s *Service) onTrigger(ctx context.Context, at jobOf, fn func(u *unit, j *flow.Job) error) error {
	var buildID string
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		buildID, err = builds.BuildIDOf(q, at.orgID, at.jobID)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return nil // deleted with its build
	}
	if err != nil {
		return err
	}
	err = s.change(ctx, at.orgID, buildID, func(u *unit) error {
		jobs, err := builds.FlowStore(u.q, buildID).Jobs(at.jobID)
		if err != nil || len(jobs) == 0 {
			return err
		}
		return fn(u, jobs[0])
	})
	if core.KindOf(err) == core.NotFound {
		return nil // deleted with its pipeline
	}
	return err
}

// explainEnd stores why a job is about to end, for people.
func explainEnd(q *db.Q, jobID, detail string) error {
	_, err := q.Exec(`UPDATE jobs SET detail = $2 WHERE id = $1`, jobID, detail)
	return err
}

// A trigger is a trigger job whose build is about to be created.
type trigger struct {
	job  *builds.Job
	from *builds.Build
}

// loadTrigger returns a trigger job that waits for its build, and the pipeline to build. It returns no trigger
// if the job does not wait any more, and an error for people if there is no pipeline that it can build.
func (s *Service) loadTrigger(ctx context.Context, at jobOf) (*trigger, *pipelines.Pipeline, error) {
	var t *trigger
	var target *pipelines.Pipeline
	err := s.db.Read(ctx, func(q *db.Q) error {
		job, err := builds.JobByID(q, at.orgID, at.jobID)
		if core.KindOf(err) == core.NotFound || err == nil && job.State != flow.Scheduled {
			return nil
		}
		if err != nil {
			return err
		}
		t = &trigger{job: job}
		if t.from, err = builds.ByID(q, at.orgID, job.BuildID); err != nil {
			return err
		}
		target, err = t.target(q)
		return err
	})
	return t, target, err
}

// creation returns the build that a trigger job requests.
func (t *trigger) creation(target *pipelines.Pipeline) Creation {
	requested := t.job.Work.Trigger.Build
	env := requested.Env.Map()
	if t.job.ParallelIndex != nil {
		maps.Copy(env, map[string]string{
			"SERVICE_PARALLEL_JOB":       strconv.Itoa(*t.job.ParallelIndex),
			"SERVICE_PARALLEL_JOB_COUNT": strconv.Itoa(*t.job.ParallelTotal),
		})
	}
	creation := Creation{
		Commit:      cmp.Or(requested.Commit, "HEAD"),
		Branch:      cmp.Or(requested.Branch, target.DefaultBranch),
		Source:      builds.FromTrigger,
		Creator:     t.from.Creator,
		TriggeredBy: t.job.ID,
		Root:        cmp.Or(t.from.Root, t.from.ID),
		MetaData:    requested.MetaData,
		Details: builds.Details{
			Message: cmp.Or(requested.Message, t.job.Label),
			Env:     env,
			Author:  t.from.Author,
		},
	}
	if t.from.MarkedFork() {
		creation.SourceEvent = &builds.SourceEvent{Fork: true}
	}
	if !t.job.Step.Async {
		creation.QueuePlace = t.from.QueuePlace
	}
	return creation
}

// abandonChild cancels the build of a canceled trigger job.
func (s *Service) abandonChild(ctx context.Context, at jobOf) error {
	var child *builds.Build
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		child, err = builds.ChildOf(q, at.orgID, at.jobID)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return s.change(ctx, at.orgID, child.ID, func(u *unit) error {
		if u.build.State.Ended() || u.build.State == flow.BuildCanceling {
			return nil
		}
		return u.cancel("The build that triggered it was canceled")
	})
}

// endChild finishes a trigger job whose build has ended or was deleted.
func (s *Service) endChild(ctx context.Context, at jobOf) error {
	return s.onTrigger(ctx, at, func(u *unit, j *flow.Job) error {
		child, err := builds.ChildOf(u.q, at.orgID, at.jobID)
		if core.KindOf(err) == core.NotFound && j.State == flow.Running {
			if err := explainEnd(u.q, j.ID, "The build that it triggered was deleted."); err != nil {
				return err
			}
			return u.run.ChildFinished(j.ID, false)
		}
		if core.KindOf(err) == core.NotFound || err == nil && !child.State.Ended() {
			return nil // deleted, or reopened by a retry
		}
		if err != nil {
			return err
		}
		steps, err := builds.FlowStore(u.q, u.build.ID).Steps(j.StepID)
		if err != nil || len(steps) == 0 {
			return err
		}
		switch {
		case j.State == flow.Scheduled && steps[0].Async:
			return u.run.ChildCreated(j.ID)
		case j.State != flow.Scheduled && j.State != flow.Running:
			return nil
		case superseded(child) && j.State == flow.Scheduled:
			if err := u.run.ChildCreated(j.ID); err != nil {
				return err
			}
			return u.run.ChildSkipped(j.ID)
		case superseded(child):
			return u.run.ChildSkipped(j.ID)
		}
		return u.run.ChildFinished(j.ID, child.State == flow.BuildPassed || child.State == flow.BuildNotRun)
	})
}
