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

// buildMoves is the table of legal moves. When one event takes a build further, for example from blocked to
// passed, the build moves through the states between.
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

// Ended reports whether s is a final state.
func (s BuildState) Ended() bool {
	switch s {
	case BuildPassed, BuildFailed, BuildCanceled, BuildSkipped, BuildNotRun:
		return true
	}
	return false
}

// A Build holds the fields of a build that flow needs. The caller sets Orphaned; flow owns the rest, and the
// caller only stores it. A new build is in state creating.
type Build struct {
	// Orphaned is set when a synchronous trigger step of a canceled build started this build.
	Orphaned bool

	State  BuildState
	Counts JobCounts
	// StartedAt is when the first job started, FailingAt when the build was failing for the first time. A retry
	// that reopens the build clears FinishedAt.
	StartedAt, FailingAt, FinishedAt time.Time
}

// JobCounts counts the newest attempts of a build's jobs. Each job is in exactly one of the first seven fields.
// The build's row stores it as JSON, so the field names are part of the schema.
type JobCounts struct {
	Waiting int // waits for other jobs
	Blocked int // waits for a person
	Ready   int // can run once its concurrency group and an agent are free
	Held    int // assigned to an agent; see [JobState.Held]
	Idle    int // ended without work: waiters, skipped jobs, jobs broken by a condition
	Done    int // ended without failing the build
	Failed  int // ended and fails the build

	// Promised counts the held jobs that promised an exit status which fails the build.
	Promised int
	// Unblocked counts the block jobs that a person released.
	Unblocked int
	// BlockedFailed and BlockedRunning count the blocked jobs whose step shows the build in that state.
	BlockedFailed, BlockedRunning int

	// Edges counts the dependencies between steps, including those of joins.
	Edges int
}

// Jobs returns the number of jobs.
func (t JobCounts) Jobs() int { return t.Live() + t.Idle + t.Done + t.Failed }

// Live returns the number of jobs that have not ended.
func (t JobCounts) Live() int { return t.Waiting + t.Blocked + t.Ready + t.Held }

// Blocked reports whether a person must act before anything else can happen in the build.
func (b *Build) Blocked() bool {
	return b.Counts.Blocked > 0 && b.Counts.Ready+b.Counts.Held == 0
}

// BlockedState returns the state that the REST API shows for a blocked build.
func (b *Build) BlockedState() definition.BlockedState {
	switch {
	case b.Counts.BlockedFailed > 0:
		return definition.BlockedFailed
	case b.Counts.BlockedRunning > 0:
		return definition.BlockedRunning
	}
	return definition.BlockedPassed
}

// next returns the state of the build that follows from its counts and its current state.
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

// halted reports whether the build is canceled or skipped, so that no further job starts.
func (r *Run) halted() bool { return r.build.State.halted() }

func (s BuildState) halted() bool {
	switch s {
	case BuildCanceling, BuildCanceled, BuildSkipped:
		return true
	}
	return false
}

// conclude ends an event: it propagates the changes and updates the state of the build.
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

// moveBuild moves the build to a state along the shortest legal path.
func (r *Run) moveBuild(to BuildState) error {
	path, ok := shortest(r.build.State, to)
	if !ok {
		return fmt.Errorf("a build that is %s cannot become %s", r.build.State, to)
	}
	for _, state := range path {
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

// shortest returns the shortest legal path between two states, without the first state.
func shortest(from, to BuildState) ([]BuildState, bool) {
	if from == to {
		return nil, true
	}
	previous := map[BuildState]BuildState{from: ""}
	for reached := []BuildState{from}; len(reached) > 0; reached = reached[1:] {
		for _, next := range buildMoves[reached[0]] {
			if _, seen := previous[next]; !seen {
				previous[next] = reached[0]
				reached = append(reached, next)
			}
		}
	}
	if _, ok := previous[to]; !ok {
		return nil, false
	}
	var path []BuildState
	for state := to; state != from; state = previous[state] {
		path = append(path, state)
	}
	slices.Reverse(path)
	return path, true
}
