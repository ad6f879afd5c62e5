package flow

import (
	"slices"
	"time"

	"stackyard/internal/platform/core"
)

// Prefetch fetches the jobs of the coming events with as few queries as one event needs. It ignores ids that do
// not exist.
func (r *Run) Prefetch(jobIDs ...string) error { return r.fetchJobsByID(jobIDs) }

// event applies do to a job and propagates the consequences.
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

// checkMove returns a MoveError unless the job has the given type and is in one of the states of from. The
// table of moves alone is too permissive: some moves follow from other events, but an agent cannot request
// them.
func (j *Job) checkMove(to JobState, kind JobType, from ...JobState) error {
	if j.Type != kind || !slices.Contains(from, j.State) {
		return &MoveError{JobID: j.ID, From: j.State, To: to}
	}
	return nil
}

// moveEvent is the event that moves a job of a type from one of the states to another.
func (r *Run) moveEvent(jobID string, to JobState, kind JobType, from ...JobState) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(to, kind, from...); err != nil {
			return err
		}
		return r.move(j, to)
	})
}

// TimeOut reports that a running job exceeded its time limit. Its agent must stop it.
func (r *Run) TimeOut(jobID string) error { return r.moveEvent(jobID, TimingOut, Script, Running) }

// FinishUnstarted finishes a scheduled job without an agent, on behalf of a stack. Automatic retry rules apply.
func (r *Run) FinishUnstarted(jobID string, exit Exit) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(Finished, Script, Scheduled); err != nil {
			return err
		}
		return r.finish(j, Finished, exit)
	})
}

// Finish reports that the job's process ended or its agent was lost. The result depends on the state: a
// canceling job is canceled, a timing-out job has timed out unless it passed. A failure that an automatic retry
// rule covers is retried at once.
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
		if j.State == Accepted { // its agent was lost before it reported the start
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

// recordExit stores how the job's process ended.
func (j *Job) recordExit(exit Exit) {
	j.ExitStatus = &exit.Status
	j.Signal, j.SignalReason = exit.Signal, exit.SignalReason
}

// finish ends a job that ran, and retries it if an automatic retry rule matches.
func (r *Run) finish(j *Job, to JobState, exit Exit) error {
	if !CanMove(j.State, to) {
		return &MoveError{JobID: j.ID, From: j.State, To: to}
	}
	// Change everything at once: the exit status counts only after the job has ended.
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

// Expire reports that a scheduled job was not started in time.
func (r *Run) Expire(jobID string) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkMove(Expired, j.Type, Scheduled); err != nil {
			return err
		}
		j.SoftFailed = j.SoftFail.Always
		return r.move(j, Expired)
	})
}

// Unblock releases a blocked job on behalf of a person.
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

// Schedule admits a limiting or limited job of a concurrency group.
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

// Limit reports that a limiting job was not admitted. It waits in the queue of its concurrency group.
func (r *Run) Limit(jobID string) error {
	return r.event(jobID, func(j *Job) error { return r.move(j, Limited) })
}
