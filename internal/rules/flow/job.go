package flow

import (
	"time"

	"stackyard/internal/rules/definition"
)

// JobType is what kind of work a job is, in the words of the API.
type JobType string

// The types of jobs.
const (
	Script  JobType = "script"
	Waiter  JobType = "waiter"
	Manual  JobType = "manual"
	Trigger JobType = "trigger"
)

// A Job is what flow knows about a job. The fields of the first part are given by whoever adds it,
// all others belong to flow and are only stored.
type Job struct {
	ID   string
	Type JobType
	// SoftFail says which failures do not fail the build.
	SoftFail definition.SoftFail
	// BrokenReason keeps the job from running when it is set before the job is added.
	BrokenReason string

	StepID string
	State  JobState
	// AgentID is the agent that the job was offered to, which is its holder from then on, and stays so
	// when it has ended; empty for none.
	AgentID string
	// Unreachable is set on a broken job that depended on what can never come. It fails the build.
	Unreachable bool

	ExitStatus           *int
	Signal, SignalReason string
	SoftFailed           bool
	// PromisedExitStatus is what a running job declared it will end with.
	PromisedExitStatus *int
	PromisedAt         time.Time
	// PromiseIgnored is set when the promise is recorded and counts for nothing.
	PromiseIgnored bool
	// PromiseFails is set while the job runs towards a promised exit status that neither soft_fail
	// nor an automatic retry covers.
	PromiseFails bool

	// Retried jobs count for nothing any more; RetriedIn is the next attempt.
	Retried   bool
	RetriedIn string
	// RetryOf is the attempt before, RetryType how it came to this one.
	RetryOf      string
	RetryType    RetryType
	RetriesCount int
	// RuleUses counts how often each of the step's rules of automatic retry was used.
	RuleUses []int

	// QueuedJob is set while the job stands in the queue of its concurrency group: it is limiting or
	// limited, or it waits, not behind a person, for an ordered turn. See [Admit].
	Queued bool
	// ConcurrencyWait is how long the job was limited; nil as the specification says.
	ConcurrencyWait *time.Duration

	// LimitedAt, RunnableAt and so on are when the job came into that state. StartedAt is when it
	// began to run, FinishedAt when it ended, unless it ended before it could be tried.
	LimitedAt, RunnableAt, StartedAt, FinishedAt, ExpiredAt, UnblockedAt time.Time
}

// RetryType is how a job came to be retried.
type RetryType string

// The types of retries.
const (
	RetryManual    RetryType = "manual"
	RetryAutomatic RetryType = "automatic"
)

// Exit is how a job's process ended, as its agent or stack tells.
type Exit struct {
	Status int
	// Signal is a name such as SIGKILL, SignalReason one of the specification's; both may be empty.
	Signal, SignalReason string
}

// Passed reports whether the job ended well: a finished waiter always did.
func (j *Job) Passed() bool {
	return j.State == Finished && (j.Type == Waiter || j.ExitStatus != nil && *j.ExitStatus == 0)
}

// Failed reports whether the job ended in a way that fails the build.
func (j *Job) Failed() bool {
	switch j.State {
	case Finished:
		return !j.Passed() && !j.SoftFailed
	case TimedOut, Expired, Canceled:
		return !j.SoftFailed
	case Broken:
		return j.Unreachable
	}
	return false
}

// PromisedFailure reports whether the job runs and has promised to fail in a way that its soft_fail
// does not cover. Lists by state count it as failed.
func (j *Job) PromisedFailure() bool {
	return j.State == Running && j.PromisedExitStatus != nil && !j.PromiseIgnored && !covers(j.SoftFail, *j.PromisedExitStatus)
}
