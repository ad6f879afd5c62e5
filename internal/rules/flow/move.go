package flow

import (
	"fmt"

	"stackyard/internal/rules/definition"
)

// A MoveError reports an event that does not fit the state of a job, for example the start of a canceled job.
type MoveError struct {
	JobID    string
	From, To JobState
}

func (e *MoveError) Error() string {
	return fmt.Sprintf("job %s is %s and cannot become %s", e.JobID, e.From, e.To)
}

// move moves a job to another state and sets the matching timestamps.
func (r *Run) move(j *Job, to JobState) error {
	if !CanMove(j.State, to) {
		return &MoveError{JobID: j.ID, From: j.State, To: to}
	}
	r.change(j, func() {
		j.State = to
		r.stamp(j)
	})
	return nil
}

// stamp sets the timestamps of the job's current state.
func (r *Run) stamp(j *Job) {
	switch j.State {
	case Limited:
		j.LimitedAt = r.now
	case Scheduled:
		j.AgentID = ""
		if j.RunnableAt.IsZero() { // set already if an agent did not accept the job in time
			j.RunnableAt = r.now
		}
	case Running:
		j.StartedAt = r.now
		r.start()
	case Unblocked:
		j.UnblockedAt = r.now
	case Expired:
		j.ExpiredAt = r.now
		j.FinishedAt = r.now
	case Finished:
		j.FinishedAt = r.now
		if j.Type != Waiter { // a stack can finish a job that never started
			r.start()
		}
	case Canceled, TimedOut, Skipped:
		j.FinishedAt = r.now
	}
}

// start records when the build's first job started.
func (r *Run) start() {
	if r.build.StartedAt.IsZero() {
		r.build.StartedAt = r.now
	}
}

// change changes a job and updates all counts.
func (r *Run) change(j *Job, do func()) {
	r.edits++
	s := r.steps[j.StepID]
	before, queued, slot := s.counters(), j.Queued, j.State.HoldsSlot()
	r.count(s, j, -1)
	do()
	r.count(s, j, +1)
	r.changedJobs.add(j)
	if s.counters() != before {
		r.changedSteps.add(s)
		r.markDirty(s)
	}
	if s.Concurrency == nil {
		return
	}
	j.Queued = s.queues(j)
	left := (queued || slot) && !j.Queued && !j.State.HoldsSlot()
	if left || j.State == Limiting {
		r.groups.add(s.Concurrency.Group)
	}
}

// queues reports whether a job of the step belongs in the queue of its concurrency group. Jobs behind a block
// or input step enter it after the release, eager jobs once they can start.
func (s *Step) queues(j *Job) bool {
	switch j.State {
	case Limiting, Limited:
		return true
	case Waiting:
		return s.Concurrency != nil && s.Concurrency.Method != definition.Eager && s.Gates == 0
	}
	return false
}

// counters returns the counts of a step that depend on its jobs.
func (s *Step) counters() [4]int { return [4]int{s.Jobs, s.Unfinished, s.Failed, s.Canceled} }

// count adds a job to the counts of its step and of the build, or removes it.
func (r *Run) count(s *Step, j *Job, by int) {
	if j.Retried {
		return
	}
	s.Jobs += by
	if !j.State.Ended() {
		s.Unfinished += by
	}
	if j.Failed() || j.State == WaitingFailed || j.State == BlockedFailed {
		s.Failed += by
	}
	if j.State == Canceled {
		s.Canceled += by
	}
	r.build.Counts.count(s, j, by)
}

func (t *JobCounts) count(s *Step, j *Job, by int) {
	switch state := j.State; {
	case state == Pending || state == Waiting:
		t.Waiting += by
	case state == Blocked:
		t.Blocked += by
		switch s.BlockedState {
		case definition.BlockedFailed:
			t.BlockedFailed += by
		case definition.BlockedRunning:
			t.BlockedRunning += by
		}
	case state.Ready():
		t.Ready += by
	case state.Held():
		t.Held += by
		if j.PromiseFails {
			t.Promised += by
		}
	case j.Failed():
		t.Failed += by
	case state == Skipped || state == Broken || j.Type == Waiter && state == Finished:
		t.Idle += by
	default:
		t.Done += by
		if state == Unblocked {
			t.Unblocked += by
		}
	}
}
