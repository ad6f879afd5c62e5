package flow

import (
	"time"

	"stackyard/internal/definition"
)

// BuildState is the state of a build.
type BuildState string

// The states of builds.
const (
	BuildCreating  BuildState = "creating"
	BuildScheduled BuildState = "scheduled"
	BuildRunning   BuildState = "running"
	BuildFailing   BuildState = "failing"
	BuildBlocked   BuildState = "blocked"
	BuildCanceling BuildState = "canceling"
	BuildPassed    BuildState = "passed"
	BuildFailed    BuildState = "failed"
	BuildCanceled  BuildState = "canceled"
	BuildSkipped   BuildState = "skipped"
	BuildNotRun    BuildState = "not_run"
)

// buildMoves is the table of legal moves. A build that has farther to go in one event, such as from
// blocked to passed, moves through the states between.
var buildMoves = map[BuildState][]BuildState{
	BuildCreating:  {BuildScheduled},
	BuildScheduled: {BuildRunning, BuildNotRun, BuildSkipped, BuildBlocked, BuildCanceled},
	BuildRunning:   {BuildPassed, BuildFailed, BuildFailing, BuildBlocked, BuildCanceling},
	BuildFailing:   {BuildRunning, BuildFailed, BuildCanceling},
	BuildBlocked:   {BuildRunning, BuildCanceled},
	BuildCanceling: {BuildCanceled},
	BuildFailed:    {BuildRunning},
	BuildPassed:    {BuildRunning},
}

// Ended reports whether a build in that state has come to an end.
func (s BuildState) Ended() bool {
	switch s {
	case BuildPassed, BuildFailed, BuildCanceled, BuildSkipped, BuildNotRun:
		return true
	}
	return false
}

// A Build is what flow knows about a build. Orphaned is given, all else belongs to flow and is only
// stored; a new build is in state creating.
type Build struct {
	// Orphaned is set when a synchronous trigger step of a build that is canceled started this one.
	Orphaned bool

	State BuildState
	Tally Tally
	// StartedAt is when the first job started, FailingAt when the build first was failing.
	// FinishedAt is cleared when a retry opens the build again.
	StartedAt, FailingAt, FinishedAt time.Time
}

// A Tally counts the newest attempts of a build's jobs, each in one of the first seven fields.
type Tally struct {
	Waiting int // for other jobs
	Blocked int // for a person
	Ready   int // to run, as soon as there is a place and an agent
	Held    int // by an agent
	Idle    int // ended with nothing to do: waiters, skipped jobs, jobs broken by a condition
	Done    int // ended, without failing the build
	Failed  int // ended, and the build fails

	// Promised counts the held jobs that will fail the build.
	Promised int
	// Unblocked counts the block jobs that a person has released.
	Unblocked int
	// BlockedFailed and BlockedRunning count the blocked jobs that show the build in that state.
	BlockedFailed, BlockedRunning int
}

// Live counts the jobs that have not ended.
func (t Tally) Live() int { return t.Waiting + t.Blocked + t.Ready + t.Held }

// Blocked reports whether a person must act before anything else can happen in the build.
func (b *Build) Blocked() bool {
	return b.Tally.Blocked > 0 && b.Tally.Ready+b.Tally.Held == 0
}

// BlockedState returns the state that REST shows for a build in state blocked.
func (b *Build) BlockedState() definition.BlockedState {
	switch {
	case b.Tally.BlockedFailed > 0:
		return definition.BlockedFailed
	case b.Tally.BlockedRunning > 0:
		return definition.BlockedRunning
	}
	return definition.BlockedPassed
}
