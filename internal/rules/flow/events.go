package flow

import (
	"slices"
	"time"

	"stackyard/internal/platform/core"
)

// Prefetch fetches the jobs that events are going to be about with as few questions as one of them takes.
// Those that do not exist are left out.
func (r *Run) Prefetch(jobIDs ...string) error { return r.fetchJobsByID(jobIDs) }

// event does something to a job and lets everything follow that follows.
func (r *Run) event(jobID string, do func(*Job) error) error {
	j, err := r.job(jobID)
	if err != nil {
		return err
	}
	if err := do(j); err != nil {
		return err
	}
	return r.conclude()
}

// checkMove returns an error when an event that leads to a state is not for jobs of that type, or not for
// the state that the job is in. The table of moves alone would allow too much: what may follow on a
// state by itself, an agent may not ask for.
func (j *Job) checkMove(to JobState, kind JobType, from ...JobState) error {
	if j.Type != kind || !slices.Contains(from, j.State) {
		return &MoveError{JobID: j.ID, From: j.State, To: to}
	}
	return nil
}

// moveEvent is the event that a job of a type comes from one of some states into another.
func (r *Run) moveEvent(jobID string, to JobState, kind JobType, from ...JobState) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(to, kind, from...); err != nil {
			return err
		}
		return r.move(j, to)
	})
}

// TimeOut: a running job has run for too long; its agent must stop it.
func (r *Run) TimeOut(jobID string) error { return r.moveEvent(jobID, TimingOut, Script, Running) }

// FinishUnstarted: a stack ends a scheduled job without an agent. Rules of automatic retry hold as for
// any other end.
func (r *Run) FinishUnstarted(jobID string, exit Exit) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(Finished, Script, Scheduled); err != nil {
			return err
		}
		return r.finish(j, Finished, exit)
	})
}

// Finish: the job's process ended, or its agent was lost. What it means
// depends on the state: a job that is canceling is then canceled, one that is timing out has timed
// out unless it passed. A failure that a rule of automatic retry covers is retried at once.
func (r *Run) Finish(jobID, holder string, exit Exit) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkHolder(holder); err != nil {
			return err
		}
		if holder != "" && r.isRepeat(j, exit) {
			return nil
		}
		if err := j.checkMove(Finished, Script, Accepted, Running, TimingOut, Canceling); err != nil {
			return err
		}
		if j.State == Accepted { // its agent was lost before it could say that it began
			if err := r.move(j, Running); err != nil {
				return err
			}
		}
		if j.State == Canceling {
			j.recordExit(exit)
			return r.cancel(j)
		}
		if promiseOverrides(j, exit.Status) {
			exit.Status = *j.PromisedExitStatus
		}
		to := Finished
		if j.State == TimingOut && exit.Status != 0 {
			to = TimedOut
		}
		return r.finish(j, to, exit)
	})
}

// recordExit notes how a job's process ended.
func (j *Job) recordExit(exit Exit) {
	j.ExitStatus = &exit.Status
	j.Signal, j.SignalReason = exit.Signal, exit.SignalReason
}

// finish ends a job that ran, and tries it again when a rule says so.
func (r *Run) finish(j *Job, to JobState, exit Exit) error {
	if !CanMove(j.State, to) {
		return &MoveError{JobID: j.ID, From: j.State, To: to}
	}
	// All of it changes at once: until a job has ended its exit status counts for nothing.
	r.change(j, func() {
		j.recordExit(exit)
		j.PromiseFails = false
		j.SoftFailed = covers(j.SoftFail, exit.Status)
		j.State = to
		r.stamp(j)
	})
	if r.halted() {
		return nil
	}
	return r.retryAutomatically(j, exit)
}

// Expire: a scheduled job was not started in time.
func (r *Run) Expire(jobID string) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(Expired, j.Type, Scheduled); err != nil {
			return err
		}
		j.SoftFailed = j.SoftFail.Always
		return r.move(j, Expired)
	})
}

// Unblock: a person releases a blocked job.
func (r *Run) Unblock(jobID string) error {
	return r.event(jobID, func(j *Job) error {
		switch {
		case j.Type != Manual:
			return core.Errorf(core.BadRequest, "This job type cannot be unblocked")
		case r.halted():
			return core.Errorf(core.Unprocessable, "Jobs from canceled builds cannot be unblocked")
		case j.State != Blocked:
			return core.Errorf(core.Unprocessable, "The job's state must be blocked")
		}
		return r.move(j, Unblocked)
	})
}

// Schedule: a limiting or limited job was admitted to its concurrency group.
func (r *Run) Schedule(jobID string) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(Scheduled, j.Type, Limiting, Limited); err != nil {
			return err
		}
		var wait time.Duration
		if j.State == Limited {
			wait = r.now.Sub(j.LimitedAt)
		}
		j.ConcurrencyWait = &wait
		return r.move(j, Scheduled)
	})
}

// Limit: a limiting job was not admitted and waits for its turn.
func (r *Run) Limit(jobID string) error {
	return r.event(jobID, func(j *Job) error { return r.move(j, Limited) })
}
