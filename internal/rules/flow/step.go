package flow

import (
	"stackyard/internal/rules/definition"
)

// The kinds of steps that nobody wrote and nobody sees. They have no jobs; they end when all they
// depend on has ended, as the worst of it did. A group is such a step too, with a name.
const (
	KindJoin  definition.Kind = "join"
	KindQueue definition.Kind = "queue" // the members of a concurrency group up to one of them
)

// A Step is what flow knows about a step. The fields of the first part are given by whoever adds
// it, all others belong to flow and are only stored.
type Step struct {
	ID   string
	Key  string
	Kind definition.Kind
	// AllowDependencyFailure, Retry, Concurrency and CancelOnBuildFailing are as written.
	AllowDependencyFailure bool
	Retry                  definition.Retry
	Concurrency            *definition.Concurrency
	CancelOnBuildFailing   bool
	// ContinueOnFailure is for wait steps.
	ContinueOnFailure bool
	// BlockedState is for block and input steps.
	BlockedState definition.BlockedState
	// Async is for trigger steps.
	Async bool

	// Position orders the steps of a build by bytes: as written, members behind their group, and
	// uploaded steps behind the step that uploaded them.
	Position string
	// Scope is the group that the step is a member of, or "". Waits in a group are local to it.
	Scope string
	// Barrier is the wait or block step before this one in its scope, Tally the join of all that
	// is before that; both may be empty.
	Barrier, BeforeBarrier string
	// Uploads is the join of all that the step uploaded, UploadCount how many uploads that were.
	Uploads     string
	UploadCount int
	// Ahead is the join of the members of its concurrency group that were added before.
	Ahead string
	// Replaced is set when an upload took the step's place. Its key may be used again.
	Replaced bool

	Phase Phase
	// Outcome is how the step ended, as far as its dependents have been told; "" while it has not.
	Outcome Outcome
	// Jobs counts newest attempts only, as do the next three. Failed ones failed hard, or were
	// stopped because others did.
	Jobs, Unfinished, Failed, Canceled int
	// Unmet counts the dependencies that have not ended, Missing those of them on keys that no step
	// has. FailedDependencies and CanceledDependencies ended so that the step may not run.
	Unmet, Missing, FailedDependencies, CanceledDependencies int
	// Gates counts the dependencies that wait, somewhere behind them, for a person.
	Gates int
	// Gating is what dependents have been told: a person must act before the step can end.
	Gating bool
}

// Phase says whether a step's jobs were let go. Joins stay in PhaseWaiting.
type Phase string

// The phases of a step.
const (
	PhaseWaiting Phase = "waiting" // for what it depends on
	PhaseOpen    Phase = "open"    // its jobs run
	PhaseStopped Phase = "stopped" // what it depends on failed; a retry can bring it back
	PhaseBroken  Phase = "broken"  // what it depends on can never come
)

// Outcome is how a step ended, in the words that dependents care about.
type Outcome string

// The outcomes of a step.
const (
	OutcomePassed   Outcome = "passed" // or soft failed, skipped, broken by a condition
	OutcomeFailed   Outcome = "failed" // or timed out, expired, or stopped by another's failure
	OutcomeCanceled Outcome = "canceled"
)

// An Edge says that a step waits for another.
type Edge struct {
	// Step depends on On. On is empty while no step has the Key.
	Step, On string
	Key      string
	// AllowFailure lets Step run although On failed; it does not when On was canceled.
	AllowFailure bool
}

// A Spec is a step to be added, with its jobs.
type Spec struct {
	// Step has the fields of its first part set.
	Step *Step
	// Jobs have the fields of their first part set. Groups have none, wait, block and input steps
	// one, others at least one.
	Jobs []*Job
	// DependsOn is nil when barriers decide, and empty when nothing does.
	DependsOn []definition.Dependency
	// Members are the steps of a group.
	Members []Spec
	// Into is the id of an existing group that Members join instead of making a new one; then
	// Step is nil.
	Into string
}

// manual reports whether the step waits for a person.
func (s *Step) manual() bool {
	return s.Kind == definition.KindBlock || s.Kind == definition.KindInput
}

// linkBarrier reports whether the steps behind wait for this one.
func (s *Step) barrier() bool {
	return s.Kind == definition.KindBlock || s.Kind == definition.KindWait
}

// join reports whether the step has no jobs.
func (s *Step) join() bool {
	return s.Kind == KindJoin || s.Kind == KindQueue || s.Kind == definition.KindGroup
}
