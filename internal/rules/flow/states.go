package flow

import "slices"

// JobState is the state of a job. The REST API shows some states under other names, see [Job.APIState].
// Reservations by stacks are not a state: they only decide which agent may take a scheduled job.
type JobState string

// The states of jobs.
const (
	Pending          JobState = "pending"
	Waiting          JobState = "waiting"
	WaitingFailed    JobState = "waiting_failed"
	Blocked          JobState = "blocked"
	BlockedFailed    JobState = "blocked_failed"
	Unblocked        JobState = "unblocked"
	UnblockedFailed  JobState = "unblocked_failed"
	Limiting         JobState = "limiting"
	Limited          JobState = "limited"
	PlatformLimiting JobState = "platform_limiting"
	PlatformLimited  JobState = "platform_limited"
	Scheduled        JobState = "scheduled"
	Assigned         JobState = "assigned"
	Accepted         JobState = "accepted"
	Running          JobState = "running"
	Finished         JobState = "finished"
	Canceling        JobState = "canceling"
	Canceled         JobState = "canceled"
	TimingOut        JobState = "timing_out"
	TimedOut         JobState = "timed_out"
	Skipped          JobState = "skipped"
	Broken           JobState = "broken"
	Expired          JobState = "expired"

	// APIPassed and APIFailed exist only in the API, for a finished job, depending on its exit status.
	APIPassed JobState = "passed"
	APIFailed JobState = "failed"
)

// jobMoves is the table of legal moves. Moves that the specification does not mention have a comment.
var jobMoves = map[JobState][]JobState{
	Pending: {Broken, Waiting, Blocked, Limiting, PlatformLimiting, Scheduled,
		Finished}, // a wait with nothing before it
	Waiting: {WaitingFailed, Canceled, Skipped, Blocked, Limiting, PlatformLimiting, Scheduled,
		Finished, // a wait that passes
		Broken},  // its dependency can never be met
	WaitingFailed:    {Waiting}, // the failure before it is retried
	Blocked:          {Unblocked, BlockedFailed, Canceled, Skipped},
	BlockedFailed:    {Waiting}, // the failure before it is retried
	Unblocked:        {UnblockedFailed, Canceled},
	Limiting:         {Limited, Scheduled, Canceled, Skipped},
	Limited:          {Scheduled, Canceled, Skipped},
	PlatformLimiting: {PlatformLimited, Scheduled, Canceled, Skipped},
	PlatformLimited:  {Scheduled, Canceled, Skipped},
	Scheduled: {Assigned, Expired, Skipped, Canceled,
		Running,   // a trigger job, which has no agent
		Finished}, // a stack finishes it without an agent
	Assigned: {Accepted, Skipped, Canceled, Scheduled},
	Accepted: {Running, Canceling, Skipped},
	Running: {Finished, TimingOut, Canceling,
		Skipped}, // a trigger job, when a newer build replaced its build
	Canceling: {Canceled},
	TimingOut: {TimedOut,
		Finished}, // it passed nevertheless
}

// CanMove reports whether a job may move between two states.
func CanMove(from, to JobState) bool {
	return slices.Contains(jobMoves[from], to)
}

// Ended reports whether s is a final state.
func (s JobState) Ended() bool {
	switch s {
	case Finished, Canceled, TimedOut, Skipped, Broken, Expired, WaitingFailed, BlockedFailed, Unblocked, UnblockedFailed:
		return true
	}
	return false
}

// Held reports whether an agent holds a job in that state or, for a trigger job, whether the triggered build is
// in progress.
func (s JobState) Held() bool {
	switch s {
	case Assigned, Accepted, Running, Canceling, TimingOut:
		return true
	}
	return false
}

// Ready reports whether a job in that state can run once a slot is free.
func (s JobState) Ready() bool {
	switch s {
	case Limiting, Limited, PlatformLimiting, PlatformLimited, Scheduled:
		return true
	}
	return false
}

// HoldsSlot reports whether a job in that state holds a slot of its concurrency group.
func (s JobState) HoldsSlot() bool {
	return s == Scheduled || s.Held()
}

// APIState returns the state as the REST API shows it.
func (j *Job) APIState() JobState {
	switch j.State {
	case Finished:
		if j.Passed() {
			return APIPassed
		}
		return APIFailed
	case Limiting, PlatformLimiting, PlatformLimited:
		return Limited
	}
	return j.State
}
