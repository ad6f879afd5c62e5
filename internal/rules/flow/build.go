package flow

import (
	"fmt"
	"slices"
	"time"

	"stackyard/internal/rules/definition"
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

	State  BuildState
	Counts JobCounts
	// StartedAt is when the first job started, FailingAt when the build first was failing.
	// FinishedAt is cleared when a retry opens the build again.
	StartedAt, FailingAt, FinishedAt time.Time
}

// A Tally counts the newest attempts of a build's jobs, each in one of the first seven fields.
type JobCounts struct {
	Waiting int // for other jobs
	Blocked int // for a person
	Ready   int // moveEvent run, as soon as there is a place and an agent
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

	// Edges counts the dependencies between the build's steps, joins included.
	Edges int
}

// Jobs counts all of them.
func (t JobCounts) Jobs() int { return t.Live() + t.Idle + t.Done + t.Failed }

// Live counts the jobs that have not ended.
func (t JobCounts) Live() int { return t.Waiting + t.Blocked + t.Ready + t.Held }

// Blocked reports whether a person must act before anything else can happen in the build.
func (b *Build) Blocked() bool {
	return b.Counts.Blocked > 0 && b.Counts.Ready+b.Counts.Held == 0
}

// BlockedState returns the state that REST shows for a build in state blocked.
func (b *Build) BlockedState() definition.BlockedState {
	switch {
	case b.Counts.BlockedFailed > 0:
		return definition.BlockedFailed
	case b.Counts.BlockedRunning > 0:
		return definition.BlockedRunning
	}
	return definition.BlockedPassed
}

// next returns the state that the build must be in, from its counts and the state it was in.
func (b *Build) next() BuildState {
	t := b.Counts
	begun := b.State != BuildCreating && b.State != BuildScheduled || !b.StartedAt.IsZero() || t.Unblocked > 0
	switch {
	case b.State == BuildCanceled || b.State == BuildSkipped:
		return b.State
	case b.State == BuildCanceling && t.Live() > 0:
		return BuildCanceling
	case b.State == BuildCanceling:
		return BuildCanceled
	case t.Live() == 0 && t.Failed > 0:
		return BuildFailed
	case t.Live() == 0 && (t.Done > 0 || begun && b.State != BuildNotRun):
		return BuildPassed
	case t.Live() == 0:
		return BuildNotRun
	case t.Failed > 0 || t.Promised > 0:
		return BuildFailing
	case b.Blocked():
		return BuildBlocked
	case begun:
		return BuildRunning
	}
	return BuildScheduled
}

// halted reports whether nothing new begins in the build any more, whatever ends in it.
func (r *Run) halted() bool { return r.build.State.halted() }

func (s BuildState) halted() bool {
	switch s {
	case BuildCanceling, BuildCanceled, BuildSkipped:
		return true
	}
	return false
}

// conclude ends an event: it lets everything follow that follows, and then the build.
func (r *Run) conclude() error {
	for {
		if err := r.propagate(); err != nil {
			return err
		}
		unstuck, err := r.breakStuckSteps()
		if err != nil {
			return err
		}
		if unstuck {
			continue
		}
		from := r.build.State
		if err := r.moveBuild(r.build.next()); err != nil {
			return err
		}
		if r.build.State != BuildFailing || from == BuildFailing {
			return nil
		}
		if err := r.cancelOnFailing(); err != nil {
			return err
		}
	}
}

// moveBuild takes the build to a state, by the shortest legal way.
func (r *Run) moveBuild(to BuildState) error {
	way, ok := shortest(r.build.State, to)
	if !ok {
		return fmt.Errorf("a build that is %s cannot become %s", r.build.State, to)
	}
	for _, state := range way {
		r.build.State = state
		r.buildStates = append(r.buildStates, state)
		switch {
		case state == BuildFailing && r.build.FailingAt.IsZero():
			r.build.FailingAt = r.now
		case state.Ended():
			r.build.FinishedAt = r.now
		case state == BuildRunning:
			r.build.FinishedAt = time.Time{}
		}
	}
	return nil
}

// shortest returns the states on the shortest legal way from one state to another, without the first.
func shortest(from, to BuildState) ([]BuildState, bool) {
	if from == to {
		return nil, true
	}
	came := map[BuildState]BuildState{from: ""}
	for reached := []BuildState{from}; len(reached) > 0; reached = reached[1:] {
		for _, next := range buildMoves[reached[0]] {
			if _, seen := came[next]; !seen {
				came[next] = reached[0]
				reached = append(reached, next)
			}
		}
	}
	if _, ok := came[to]; !ok {
		return nil, false
	}
	var way []BuildState
	for state := to; state != from; state = came[state] {
		way = append(way, state)
	}
	slices.Reverse(way)
	return way, true
}
