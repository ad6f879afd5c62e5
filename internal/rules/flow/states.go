package flow

import "slices"

// JobState is the state of a job. These are the raw words; REST shows some of them as others, see
// [Job.APIState]. That a stack has reserved a scheduled job is not known here: it matters only to who
// else may take it.
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

	// APIPassed and APIFailed are words of the API alone: a job is finished, with an exit status.
	APIPassed JobState = "passed"
	APIFailed JobState = "failed"
)

// jobMoves is the table of legal moves: the specification's, and where it is silent ours, with the
// reason.
var jobMoves = map[JobState][]JobState{
	Pending: {Broken, Waiting, Blocked, Limiting, PlatformLimiting, Scheduled,
		Finished}, // a wait with nothing before it
	Waiting: {WaitingFailed, Canceled, Skipped, Blocked, Limiting, PlatformLimiting, Scheduled,
		Finished, // a wait that passes
		Broken},  // what it depends on can never come
	WaitingFailed:    {Waiting}, // what failed before it is retried
	Blocked:          {Unblocked, BlockedFailed, Canceled, Skipped},
	BlockedFailed:    {Waiting}, // what failed before it is retried
	Unblocked:        {UnblockedFailed, Canceled},
	Limiting:         {Limited, Scheduled, Canceled, Skipped},
	Limited:          {Scheduled, Canceled, Skipped},
	PlatformLimiting: {PlatformLimited, Scheduled, Canceled, Skipped},
	PlatformLimited:  {Scheduled, Canceled, Skipped},
	Scheduled: {Assigned, Expired, Skipped, Canceled,
		Running,   // a trigger job, which no agent takes
		Finished}, // a stack finishes it without an agent
	Assigned: {Accepted, Skipped, Canceled, Scheduled},
	Accepted: {Running, Canceling, Skipped},
	Running: {Finished, TimingOut, Canceling,
		Skipped}, // a trigger job whose build was skipped for a newer one
	Canceling: {Canceled},
	TimingOut: {TimedOut,
		Finished}, // it passed in spite of it
}

// CanMove reports whether a job may move from one state to another.
func CanMove(from, to JobState) bool {
	return slices.Contains(jobMoves[from], to)
}

// Ended reports whether a job in that state has come to an end.
func (s JobState) Ended() bool {
	switch s {
	case Finished, Canceled, TimedOut, Skipped, Broken, Expired, WaitingFailed, BlockedFailed, Unblocked, UnblockedFailed:
		return true
	}
	return false
}

// Held reports whether a job in that state is in the hands of an agent, or of the build that a
// trigger job started.
func (s JobState) Held() bool {
	switch s {
	case Assigned, Accepted, Running, Canceling, TimingOut:
		return true
	}
	return false
}

// Ready reports whether a job in that state may run as soon as there is place for it.
func (s JobState) Ready() bool {
	switch s {
	case Limiting, Limited, PlatformLimiting, PlatformLimited, Scheduled:
		return true
	}
	return false
}

// HoldsSlot reports whether a job in that state takes one of the places of its concurrency group.
func (s JobState) HoldsSlot() bool {
	return s == Scheduled || s.Held()
}

// APIState returns the state in the words of REST.
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
