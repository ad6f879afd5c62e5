package flow

import (
	"stackyard/internal/rules/definition"
)

// The kinds of hidden steps. They have no jobs and end when all their dependencies have ended, with the worst
// outcome of those. A group works the same way but is visible.
const (
	KindJoin  definition.Kind = "join"
	KindQueue definition.Kind = "queue" // the members of a concurrency group before one of them
)

// A Step holds the fields of a step that flow needs. The caller that adds the step sets the fields of the first
// part. Flow owns the others, and the caller only stores them.
type Step struct {
	ID   string
	Key  string
	Kind definition.Kind
	// AllowDependencyFailure, Retry, Concurrency and CancelOnBuildFailing come from the step definition.
	AllowDependencyFailure bool
	Retry                  definition.Retry
	Concurrency            *definition.Concurrency
	CancelOnBuildFailing   bool
	// ContinueOnFailure applies to wait steps.
	ContinueOnFailure bool
	// BlockedState applies to block and input steps.
	BlockedState definition.BlockedState
	// Async applies to trigger steps.
	Async bool

	// Position orders the steps of a build, compared by bytes: as written, members after their group, uploaded
	// steps after the step that uploaded them.
	Position string
	// Scope is the group of the step, or "". Waits in a group are local to it.
	Scope string
	// Barrier is the wait or block step before this one in its scope, BeforeBarrier the join of all steps
	// before the barrier. Both may be empty.
	Barrier, BeforeBarrier string
	// Uploads is the join of all steps that the step uploaded, UploadCount the number of uploads.
	Uploads     string
	UploadCount int
	// Ahead is the join of the earlier members of the step's concurrency group.
	Ahead string
	// Replaced is set when an upload replaced the step. Its key can be used again.
	Replaced bool

	Phase Phase
	// Outcome is how the step ended, as passed to its dependents; "" before that.
	Outcome Outcome
	// These count the newest attempts. Failed includes jobs that were stopped because of other failures, but no
	// soft failures.
	Jobs, Unfinished, Failed, Canceled int
	// Unmet counts the dependencies that have not ended, Missing those of them on keys that no step has.
	// FailedDependencies and CanceledDependencies count those that keep the step from running.
	Unmet, Missing, FailedDependencies, CanceledDependencies int
	// Gates counts the dependencies that wait for a person, directly or through others.
	Gates int
	// Gating is set when a person must act before the step can end, as passed to its dependents.
	Gating bool
}

// Phase is the progress of a step. Joins stay in PhaseWaiting.
type Phase string

// The phases of a step.
const (
	PhaseWaiting Phase = "waiting" // for its dependencies
	PhaseOpen    Phase = "open"    // its jobs can run
	PhaseStopped Phase = "stopped" // a dependency failed; a retry can reopen it
	PhaseBroken  Phase = "broken"  // a dependency can never be met
)

// Outcome is how a step ended, as far as dependents are concerned.
type Outcome string

// The outcomes of a step.
const (
	OutcomePassed   Outcome = "passed" // or soft failed, skipped, broken by a condition
	OutcomeFailed   Outcome = "failed" // or timed out, expired, or stopped by another failure
	OutcomeCanceled Outcome = "canceled"
)

// An Edge makes a step wait for another.
type Edge struct {
	// Step depends on On. On is empty while no step has Key.
	Step, On string
	Key      string
	// AllowFailure lets Step run if On failed, but not if On was canceled.
	AllowFailure bool
}

// A Spec is a step to add, with its jobs.
type Spec struct {
	// Step has the fields of its first part set.
	Step *Step
	// Jobs have the fields of their first part set. Groups have none, wait, block and input steps
	// one, others at least one.
	Jobs []*Job
	// DependsOn is nil if barriers apply, and empty if the step has no dependencies.
	DependsOn []definition.Dependency
	// Members are the steps of a group.
	Members []Spec
	// Into is the id of an existing group that Members join; then Step is nil.
	Into string
}

// manual reports whether the step waits for a person.
func (s *Step) manual() bool {
	return s.Kind == definition.KindBlock || s.Kind == definition.KindInput
}

// barrier reports whether later steps wait for this one.
func (s *Step) barrier() bool {
	return s.Kind == definition.KindBlock || s.Kind == definition.KindWait
}

// join reports whether the step has no jobs.
func (s *Step) join() bool {
	return s.Kind == KindJoin || s.Kind == KindQueue || s.Kind == definition.KindGroup
}
