package flow

import "stackyard/internal/platform/core"

// CancelJob cancels a job: at once, or after its agent has stopped it.
func (r *Run) CancelJob(jobID string) error {
	return r.event(jobID, func(j *Job) error {
		if j.State.Ended() {
			return core.Errorf(core.Unprocessable, "Job can't be canceled because it's already finished.")
		}
		return r.beginCancel(j)
	})
}

// CancelBuild cancels all jobs of the build that have not ended.
func (r *Run) CancelBuild() error {
	switch state := r.build.State; {
	case state.Ended():
		return core.Errorf(core.Unprocessable, "Build can't be canceled because it's already finished.")
	case state == BuildCanceling:
		return core.Errorf(core.Unprocessable, "Build can't be canceled because it's already being canceled.")
	case state == BuildCreating:
		return core.Errorf(core.Unprocessable, "Build can't be canceled because it's still being created.")
	}
	if err := r.eachLiveJob((*Run).beginCancel); err != nil {
		return err
	}
	to := BuildCanceled
	if r.build.Counts.Live() > 0 {
		to = BuildCanceling
	}
	if err := r.moveBuild(to); err != nil {
		return err
	}
	return r.conclude()
}

// SkipBuild skips a build that has not started, because a newer build replaces it.
func (r *Run) SkipBuild() error {
	if r.build.State != BuildScheduled && r.build.State != BuildCreating {
		return core.Errorf(core.Unprocessable, "Only builds that have not started can be skipped")
	}
	skip := func(r *Run, j *Job) error { return r.move(j, Skipped) }
	if err := r.eachLiveJob(skip); err != nil {
		return err
	}
	if err := r.moveBuild(BuildSkipped); err != nil {
		return err
	}
	return r.conclude()
}

// eachLiveJob calls do for every job of the build that has not ended.
func (r *Run) eachLiveJob(do func(*Run, *Job) error) error {
	steps, err := r.unfinished()
	if err != nil {
		return err
	}
	return r.eachLiveJobOf(steps, do)
}

// eachLiveJobOf calls do for every job of the steps that has not ended.
func (r *Run) eachLiveJobOf(steps []*Step, do func(*Run, *Job) error) error {
	for _, s := range steps {
		for _, j := range r.jobsOf(s, func(s JobState) bool { return !s.Ended() }) {
			if err := do(r, j); err != nil {
				return err
			}
		}
	}
	return nil
}

// cancelOnFailing cancels the jobs of steps with cancel_on_build_failing.
func (r *Run) cancelOnFailing() error {
	found, err := r.store.CancelOnFailing()
	if err != nil {
		return err
	}
	steps, err := r.liveSteps(found, func(s *Step) bool { return s.CancelOnBuildFailing })
	if err != nil {
		return err
	}
	return r.eachLiveJobOf(steps, (*Run).beginCancel)
}

// beginCancel cancels a job that has not ended. A job that an agent runs is canceling until the agent has
// stopped it.
func (r *Run) beginCancel(j *Job) error {
	switch {
	case j.State == Canceling || j.State == TimingOut: // its agent is already stopping it
		return nil
	case j.State == Accepted || j.State == Running:
		if err := r.move(j, Canceling); err != nil {
			return err
		}
		if j.Type != Trigger { // a trigger job has no agent
			return nil
		}
	}
	return r.cancel(j)
}

// cancel moves a job to canceled.
func (r *Run) cancel(j *Job) error {
	if !CanMove(j.State, Canceled) {
		return &MoveError{JobID: j.ID, From: j.State, To: Canceled}
	}
	r.change(j, func() {
		j.PromiseFails = false
		j.SoftFailed = j.SoftFail.Always
		j.State = Canceled
		r.stamp(j)
	})
	return nil
}
