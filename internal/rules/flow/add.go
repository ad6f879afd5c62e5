package flow

// Begin adds the steps of a new build and schedules what can start. It rejects steps that depend on each other
// or share a key, with an error for the user.
func (r *Run) Begin(specs []Spec) error {
	return r.add(specs, nil)
}

// add links steps, adds their jobs and releases those that can start.
func (r *Run) add(specs []Spec, uploader *Step) error {
	if err := r.link(specs, uploader); err != nil {
		return err
	}
	jobs, err := r.addJobs(specs)
	if err != nil {
		return err
	}
	var added affectedSteps
	for _, s := range r.newSteps {
		added.include(s)
	}
	if err := r.updatePhases(added); err != nil {
		return err
	}
	if err := r.propagate(); err != nil {
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

// addJobs adds the jobs of new steps and breaks those with a BrokenReason.
func (r *Run) addJobs(specs []Spec) ([]*Job, error) {
	var jobs []*Job
	for _, spec := range specs {
		for _, j := range spec.Jobs {
			r.addJob(spec.Step, j)
			jobs = append(jobs, j)
			if j.BrokenReason == "" {
				continue
			}
			if err := r.move(j, Broken); err != nil {
				return nil, err
			}
		}
		inner, err := r.addJobs(spec.Members)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, inner...)
	}
	return jobs, nil
}
