package lifecycle

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// updateBuild writes the state of the build and its job counts, or a new build, and records how the counts of its pipeline change. It is
// the first statement of a unit of work that writes: it locks the build, and fails with errMoved if the build in memory
// is not the one in the row.
func (u *unit) updateBuild(changes flow.Changes) error {
	if u.insert == nil && !u.touched && !changes.Build && len(changes.Jobs) == 0 && len(changes.Steps) == 0 && len(changes.NewSteps) == 0 && len(changes.NewEdges) == 0 && len(changes.Resolved) == 0 {
		return nil
	}
	b := u.build
	before, after := u.counted.counts(b.Jobs), phaseOf(b)
	b.Jobs = b.Jobs.Plus(liveJobs(changes.Jobs))
	u.then.counts.Add(b.PipelineID, b.ID, after.counts(b.Jobs).Minus(before))
	if insert := u.insert; insert != nil {
		u.insert, u.counted = nil, after
		return insert()
	}
	set, args := ``, []any{b.ID, b.Version}
	switch {
	case u.counted != after || changes.Build && len(changes.BuildStates) > 0:
		set = `, tally = $3, waiting_jobs = $4, scheduled_jobs = $5, running_jobs = $6, started_at = $7, failing_at = $8, state = $9, finished_at = $10`
		args = append(args, db.JSON(b.Counts), b.Jobs.WaitingJobs, b.Jobs.ScheduledJobs, b.Jobs.RunningJobs, db.Micros(b.StartedAt), db.Micros(b.FailingAt), b.State, db.Micros(b.FinishedAt))
	case changes.Build || after.counts(b.Jobs) != before:
		// Without the columns of indexes.
		set = `, tally = $3, waiting_jobs = $4, scheduled_jobs = $5, running_jobs = $6, started_at = $7, failing_at = $8`
		args = append(args, db.JSON(b.Counts), b.Jobs.WaitingJobs, b.Jobs.ScheduledJobs, b.Jobs.RunningJobs, db.Micros(b.StartedAt), db.Micros(b.FailingAt))
	}
	where := ` WHERE id = $1 AND version = $2`
	if u.unchecked {
		where += ` AND NOT EXISTS (SELECT 1 FROM pipelines p WHERE p.id = builds.pipeline_id AND p.deleted_at IS NOT NULL)`
	}
	if err := u.q.LaterIf(rows(1), `UPDATE builds SET version = version + 1`+set+where, args...); err != nil {
		return err
	}
	b.Version++
	if u.counted.unfinished && !after.unfinished && u.measure != nil {
		u.measure.buildEnded(u.q, b)
	}
	u.unchecked, u.touched, u.counted = false, false, after
	return nil
}

// liveJobs returns how changes of jobs change the numbers of command jobs that have not ended.
func liveJobs(changes []flow.JobChange) (n pipelines.Counts) {
	count := func(state flow.JobState, by int) {
		switch {
		case state == "" || state.Ended():
		case state.Held():
			n.RunningJobs += by
		case state.Ready():
			n.ScheduledJobs += by
		default:
			n.WaitingJobs += by
		}
	}
	for _, change := range changes {
		if change.Job.Type == flow.Script {
			count(change.From, -1)
			count(change.Job.State, 1)
		}
	}
	return n
}

// A phase is the part of a build's state that decides how its pipeline counts it. A build in the zero phase is
// not counted.
type phase struct {
	state      flow.BuildState
	unfinished bool
}

func phaseOf(b *builds.Build) phase { return phase{b.State, b.FinishedAt.IsZero()} }

// counts returns what a build with a number of jobs adds to the counts of its pipeline.
func (p phase) counts(jobs pipelines.Counts) pipelines.Counts {
	if !p.unfinished {
		return pipelines.Counts{}
	}
	switch p.state {
	case flow.BuildCreating, flow.BuildScheduled:
		jobs.ScheduledBuilds = 1
	case flow.BuildRunning, flow.BuildFailing, flow.BuildCanceling:
		jobs.RunningBuilds = 1
	}
	return jobs
}
