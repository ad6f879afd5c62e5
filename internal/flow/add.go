package flow

import "stackyard/internal/core"

// Begin adds the steps of a new build and makes its first moves. Steps that depend on each other, or
// have the same key, are refused with an error for a person.
func (r *Run) Begin(specs []Spec) error {
	return r.add(specs, nil)
}

// AddSteps adds the steps that a running job uploads, behind the job's step. What depends on that
// step depends on the new ones too. With replace, all that has not started yet makes way for them.
// A key that is taken, or steps that depend on each other, are refused with an error for a person.
func (r *Run) AddSteps(jobID string, specs []Spec, replace bool) error {
	j, err := r.job(jobID)
	if err != nil {
		return err
	}
	if r.halted() || !j.State.Held() {
		return core.Errorf(core.Unprocessable, "Steps can only be uploaded by a job that is running, in a build that is not canceled")
	}
	uploader := r.steps[j.StepID]
	if replace {
		if err := r.replaceAllBut(uploader); err != nil {
			return err
		}
	}
	return r.add(specs, uploader)
}

// add links steps, makes their jobs, and lets go those that can.
func (r *Run) add(specs []Spec, uploader *Step) error {
	if err := r.link(specs, uploader); err != nil {
		return err
	}
	jobs, err := r.makeJobs(specs)
	if err != nil {
		return err
	}
	var fresh hearings
	for _, s := range r.newSteps {
		fresh.hear(s)
	}
	if err := r.decide(fresh); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	for _, j := range jobs {
		if j.State == Pending {
			if err := r.move(j, Waiting); err != nil {
				return err
			}
		}
	}
	return r.conclude()
}

// makeJobs takes in the jobs of new steps, and breaks those that are not meant to run.
func (r *Run) makeJobs(specs []Spec) ([]*Job, error) {
	var jobs []*Job
	for _, spec := range specs {
		for _, j := range spec.Jobs {
			r.makeJob(spec.Step, j)
			jobs = append(jobs, j)
			if j.BrokenReason == "" {
				continue
			}
			if err := r.move(j, Broken); err != nil {
				return nil, err
			}
		}
		inner, err := r.makeJobs(spec.Members)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, inner...)
	}
	return jobs, nil
}

// replaceAllBut skips all jobs that have not started, but not those of one step.
func (r *Run) replaceAllBut(spared *Step) error {
	steps, err := r.unfinished()
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s == spared || s.join() {
			continue
		}
		for _, j := range r.jobsOf(s, isUnstarted) {
			if err := r.move(j, Skipped); err != nil {
				return err
			}
		}
		if s.Unfinished == 0 {
			s.Replaced = true
			r.changedSteps.add(s)
		}
	}
	return nil
}

// isUnstarted reports whether nobody has a job in that state in hand yet.
func isUnstarted(s JobState) bool { return !s.Ended() && !s.Held() }
