package flow

// ChildCreated reports that the build of a scheduled trigger job exists. An asynchronous trigger passes with
// that.
func (r *Run) ChildCreated(jobID string) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(Running, Trigger, Scheduled); err != nil {
			return err
		}
		if err := r.move(j, Running); err != nil {
			return err
		}
		if r.steps[j.StepID].Async {
			return r.finish(j, Finished, Exit{})
		}
		return nil
	})
}

// ChildFinished reports that the build of a trigger job ended, or could not be created, which is a failure.
func (r *Run) ChildFinished(jobID string, passed bool) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(Finished, Trigger, Scheduled, Running); err != nil {
			return err
		}
		if j.State == Scheduled {
			if err := r.move(j, Running); err != nil {
				return err
			}
		}
		exit := Exit{Status: 1}
		if passed {
			exit.Status = 0
		}
		return r.finish(j, Finished, exit)
	})
}

// ChildSkipped reports that the build of a trigger job was skipped for a newer one on its branch.
func (r *Run) ChildSkipped(jobID string) error { return r.moveEvent(jobID, Skipped, Trigger, Running) }
