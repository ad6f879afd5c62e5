package flow

import (
	"fmt"
	"slices"

	"stackyard/internal/rules/definition"
)

// verify recomputes all counts of flow from the jobs, the phases of steps and the edges, and returns the
// differences.
func (m *memory) verify() error {
	full := recompute{m: m, outcomes: map[string]Outcome{}, gating: map[string]bool{}, on: map[string][]Edge{}}
	for on, edges := range m.dependents {
		for _, e := range edges {
			if e.On != on {
				return fmt.Errorf("edge %+v is kept under %s", e, on)
			}
			full.on[e.Step] = append(full.on[e.Step], e)
		}
	}
	for _, e := range m.missing {
		full.on[e.Step] = append(full.on[e.Step], e)
	}
	if got, want := m.build.State, full.buildState(); got != want {
		return fmt.Errorf("the build is %s and must be %s", got, want)
	}
	if got, want := m.build.Counts, full.tally(); got != want {
		return fmt.Errorf("the tally is %+v and must be %+v", got, want)
	}
	for _, s := range m.steps {
		if err := full.verifyStep(s); err != nil {
			return fmt.Errorf("step %s (%s %s): %w", s.ID, s.Kind, s.Key, err)
		}
	}
	return nil
}

type recompute struct {
	m        *memory
	on       map[string][]Edge // by the dependent step
	outcomes map[string]Outcome
	gating   map[string]bool
}

func (f recompute) halted() bool {
	return slices.Contains([]BuildState{BuildCanceling, BuildCanceled, BuildSkipped}, f.m.build.State)
}

func (f recompute) outcome(id string) Outcome {
	if known, ok := f.outcomes[id]; ok {
		return known
	}
	f.outcomes[id] = "" // a cycle has not ended
	f.outcomes[id] = f.compute(f.m.steps[id])
	return f.outcomes[id]
}

func (f recompute) compute(s *Step) Outcome {
	unmet, _, failed, canceled := f.dependencies(s)
	verdict := OutcomePassed
	switch {
	case canceled > 0:
		verdict = OutcomeCanceled
	case failed > 0:
		verdict = OutcomeFailed
	}
	if s.Kind == KindJoin || s.Kind == KindQueue || s.Kind == definition.KindGroup {
		switch {
		case s.Phase == PhaseBroken:
			return OutcomeFailed
		case unmet > 0:
			return ""
		}
		return verdict
	}
	jobs := f.m.newest(s.ID)
	switch {
	case slices.ContainsFunc(jobs, func(j *Job) bool { return !j.State.Ended() }):
		return ""
	case slices.ContainsFunc(jobs, func(j *Job) bool { return j.State == Canceled }):
		return OutcomeCanceled
	case !slices.ContainsFunc(jobs, stopped):
	case s.Kind == definition.KindWait || s.Kind == definition.KindBlock:
		return verdict
	default:
		return OutcomeFailed
	}
	switch {
	case slices.ContainsFunc(jobs, (*Job).Failed):
		return OutcomeFailed
	}
	return OutcomePassed
}

func stopped(j *Job) bool { return j.State == WaitingFailed || j.State == BlockedFailed }

func (f recompute) dependencies(s *Step) (unmet, missing, failed, canceled int) {
	for _, e := range f.on[s.ID] {
		if e.On == "" {
			unmet++
			missing++
			continue
		}
		switch f.outcome(e.On) {
		case "":
			unmet++
		case OutcomeCanceled:
			canceled++
		case OutcomeFailed:
			if !e.AllowFailure {
				failed++
			}
		}
	}
	return unmet, missing, failed, canceled
}

func (f recompute) gates(s *Step) (n int) {
	for _, e := range f.on[s.ID] {
		if e.On != "" && f.isGating(e.On) {
			n++
		}
	}
	return n
}

func (f recompute) isGating(id string) bool {
	known, ok := f.gating[id]
	if !ok {
		f.gating[id] = false
		s := f.m.steps[id]
		known = f.outcome(id) == "" && (s.Kind == definition.KindBlock || s.Kind == definition.KindInput || f.gates(s) > 0)
		f.gating[id] = known
	}
	return known
}

func (f recompute) verifyStep(s *Step) error {
	var jobs, unfinished, failed, canceled int
	for _, j := range f.m.newest(s.ID) {
		jobs++
		if !j.State.Ended() {
			unfinished++
		}
		if j.Failed() || stopped(j) {
			failed++
		}
		if j.State == Canceled {
			canceled++
		}
		if err := f.verifyJob(s, j); err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	if got, want := s.counters(), [4]int{jobs, unfinished, failed, canceled}; got != want {
		return fmt.Errorf("its counts are %v and must be %v", got, want)
	}
	if f.halted() { // signals are no longer passed on
		return nil
	}
	if got, want := s.Outcome, f.outcome(s.ID); got != want {
		return fmt.Errorf("its outcome is %q and must be %q", got, want)
	}
	unmet, missing, failedDependencies, canceledDependencies := f.dependencies(s)
	got := [5]int{s.Unmet, s.Missing, s.FailedDependencies, s.CanceledDependencies, s.Gates}
	want := [5]int{unmet, missing, failedDependencies, canceledDependencies, f.gates(s)}
	if got != want {
		return fmt.Errorf("its dependencies are %v and must be %v", got, want)
	}
	if s.Gating != f.isGating(s.ID) {
		return fmt.Errorf("it is gating: %t", s.Gating)
	}
	bad := failedDependencies+canceledDependencies > 0
	switch {
	case hidden(s) || s.Kind == definition.KindGroup:
	case s.Phase == PhaseWaiting && unmet == 0:
		return fmt.Errorf("it waits for nothing")
	case s.Phase == PhaseStopped && (unmet > 0 || !bad):
		return fmt.Errorf("it is stopped without a reason")
	}
	return nil
}

func (f recompute) verifyJob(s *Step, j *Job) error {
	waiting := j.State == Waiting
	inOrder := s.Concurrency != nil && s.Concurrency.Method == definition.Ordered
	queued := waiting && inOrder && f.gates(s) == 0 || j.State == Limiting || j.State == Limited
	switch {
	case j.State == Pending:
		return fmt.Errorf("it was never looked at")
	case j.State == Limiting:
		return fmt.Errorf("its concurrency group was never asked")
	case !f.halted() && !j.State.Ended() && waiting != (s.Phase == PhaseWaiting):
		return fmt.Errorf("it is %s in a step that is %s", j.State, s.Phase)
	case !f.halted() && j.Queued != queued:
		return fmt.Errorf("it is %s and queued: %t", j.State, j.Queued)
	case j.State.Held() && j.State != Assigned && j.State != Accepted && j.StartedAt.IsZero() && j.State != Canceling:
		return fmt.Errorf("it is %s and never started", j.State)
	}
	return nil
}

func (f recompute) each(do func(*Step, *Job)) {
	for _, s := range f.m.steps {
		for _, j := range f.m.newest(s.ID) {
			do(s, j)
		}
	}
}

func (f recompute) tally() (t JobCounts) {
	for _, edges := range f.on {
		t.Edges += len(edges)
	}
	f.each(func(s *Step, j *Job) {
		switch {
		case j.State == Waiting || j.State == Pending:
			t.Waiting++
		case j.State == Blocked:
			t.Blocked++
			if s.BlockedState == definition.BlockedFailed {
				t.BlockedFailed++
			}
			if s.BlockedState == definition.BlockedRunning {
				t.BlockedRunning++
			}
		case j.State.Held():
			t.Held++
			if j.PromiseFails {
				t.Promised++
			}
		case !j.State.Ended():
			t.Ready++
		case j.Failed():
			t.Failed++
		case j.State == Skipped || j.State == Broken || j.Type == Waiter && j.State == Finished:
			t.Idle++
		default:
			t.Done++
		}
		if j.State == Unblocked {
			t.Unblocked++
		}
	})
	return t
}

// buildState derives the state of the build from its jobs, as the specification defines it.
func (f recompute) buildState() BuildState {
	if f.m.build.State == BuildSkipped {
		return BuildSkipped
	}
	var live, free, blocked, hard, ended int
	f.each(func(_ *Step, j *Job) {
		switch {
		case !j.State.Ended():
			live++
			if j.State.Ready() || j.State.Held() {
				free++
			}
			if j.State == Blocked {
				blocked++
			}
			if j.PromiseFails {
				hard++
			}
		case j.Failed():
			hard++
		case j.State != Skipped && j.State != Broken && j.APIState() != APIPassed || j.Type != Waiter && j.Passed():
			ended++
		}
	})
	// A build that has started never returns to scheduled.
	begun := slices.ContainsFunc(f.m.states, func(s BuildState) bool { return s != BuildScheduled && s != BuildNotRun })
	for _, j := range f.m.jobs {
		begun = begun || !j.StartedAt.IsZero() || !j.UnblockedAt.IsZero()
	}
	switch {
	case slices.Contains(f.m.states, BuildCanceling) || slices.Contains(f.m.states, BuildCanceled):
		if live > 0 {
			return BuildCanceling
		}
		return BuildCanceled
	case live == 0 && hard > 0:
		return BuildFailed
	case live == 0 && (ended > 0 || begun):
		return BuildPassed
	case live == 0:
		return BuildNotRun
	case hard > 0:
		return BuildFailing
	case free == 0 && blocked > 0:
		return BuildBlocked
	case begun:
		return BuildRunning
	}
	return BuildScheduled
}
