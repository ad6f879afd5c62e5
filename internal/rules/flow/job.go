package flow

import (
	"time"

	"stackyard/internal/rules/definition"
)

// JobType is the kind of a job, as the API names it.
type JobType string

// The types of jobs.
const (
	Script  JobType = "script"
	Waiter  JobType = "waiter"
	Manual  JobType = "manual"
	Trigger JobType = "trigger"
)

// A Job holds the fields of a job that flow needs. The caller that adds the job sets the fields of the first
// part. Flow owns the others, and the caller only stores them.
type Job struct {
	ID   string
	Type JobType
	// SoftFail selects the failures that do not fail the build.
	SoftFail definition.SoftFail
	// BrokenReason, when set before the job is added, keeps the job from running.
	BrokenReason string

	StepID string
	State  JobState
	// AgentID is the agent that the job is assigned to, and stays set after the job has ended. It is empty for
	// none.
	AgentID string
	// Unreachable is set on a broken job whose dependency can never be met. It fails the build.
	Unreachable bool

	ExitStatus           *int
	Signal, SignalReason string
	SoftFailed           bool
	// PromisedExitStatus is the exit status that a running job declared in advance.
	PromisedExitStatus *int
	PromisedAt         time.Time
	// PromiseIgnored is set when the promise is only recorded.
	PromiseIgnored bool
	// PromiseFails is set while the job runs with a promised exit status that neither soft_fail nor an
	// automatic retry covers.
	PromiseFails bool

	// Retried jobs no longer count; RetriedIn is the next attempt.
	Retried   bool
	RetriedIn string
	// RetryOf is the previous attempt, RetryType the type of the retry that created this one.
	RetryOf      string
	RetryType    RetryType
	RetriesCount int
	// RuleUses counts the uses of each of the step's automatic retry rules.
	RuleUses []int

	// Queued is set while the job is in the queue of its concurrency group: it is limiting or limited, or it is
	// ordered, waiting, and not behind a step that waits for a person. See [Admit].
	Queued bool
	// ConcurrencyWait is how long the job was limited, or nil as the specification defines.
	ConcurrencyWait *time.Duration

	// LimitedAt, RunnableAt and so on are when the job entered that state. StartedAt is when it started to run,
	// FinishedAt when it ended, unless it ended before it could run.
	LimitedAt, RunnableAt, StartedAt, FinishedAt, ExpiredAt, UnblockedAt time.Time
}

// RetryType is what caused a retry.
type RetryType string

// The types of retries.
const (
	RetryManual    RetryType = "manual"
	RetryAutomatic RetryType = "automatic"
)

// Exit describes how a job's process ended, as its agent or stack reported it.
type Exit struct {
	Status int
	// Signal is a name like SIGKILL, SignalReason one of the reasons in the specification. Both may be empty.
	Signal, SignalReason string
}

// Passed reports whether the job succeeded. A finished waiter always did.
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

// PromisedFailure reports whether the job is running and promised a failure that soft_fail does not cover.
// Lists by state count it as failed.
func (j *Job) PromisedFailure() bool {
	return j.State == Running && j.PromisedExitStatus != nil && !j.PromiseIgnored && !covers(j.SoftFail, *j.PromisedExitStatus)
}
