package flow

import "slices"

// A signal is the state of a step that its dependents see.
type signal struct {
	outcome Outcome
	gating  bool
}

// signal returns the signal that follows from the step's counts.
func (s *Step) signal() signal {
	outcome := s.outcome()
	return signal{outcome, outcome == "" && (s.manual() || s.Gates > 0)}
}

// outcome returns how the step ended, derived from its counts.
func (s *Step) outcome() Outcome {
	switch {
	case s.Phase == PhaseBroken && s.join():
		return OutcomeFailed
	case s.join() && s.Unmet > 0:
		return ""
	case s.join():
		return s.dependencyOutcome()
	case s.Unfinished > 0:
		return ""
	case s.Canceled > 0:
		return OutcomeCanceled
	case s.Failed > 0 && s.Phase == PhaseStopped && s.barrier():
		// A step behind a barrier depends on everything before it, so pass a cancel on.
		return s.dependencyOutcome()
	case s.Failed > 0:
		return OutcomeFailed
	}
	return OutcomePassed
}

// dependencyOutcome combines the outcomes of the step's dependencies, which have all ended.
func (s *Step) dependencyOutcome() Outcome {
	switch {
	case s.CanceledDependencies > 0:
		return OutcomeCanceled
	case s.FailedDependencies > 0:
		return OutcomeFailed
	}
	return OutcomePassed
}

// applySignal adds a dependency's signal to the counts of the step, or removes it.
func (s *Step) applySignal(e Edge, sig signal, by int) {
	switch {
	case sig.outcome == "":
		s.Unmet += by
	case sig.outcome == OutcomeCanceled:
		s.CanceledDependencies += by
	case sig.outcome == OutcomeFailed && !e.AllowFailure:
		s.FailedDependencies += by
	}
	if sig.gating {
		s.Gates += by
	}
}

// markDirty marks a step whose signal differs from the one that its dependents have.
func (r *Run) markDirty(s *Step) {
	if s.signal() != (signal{s.Outcome, s.Gating}) {
		r.dirty.add(s)
	}
}

// propagate passes the signals of dirty steps to their dependents, until none is dirty. It proceeds in waves,
// so that a barrier that releases many steps costs a few queries instead of a few per step.
func (r *Run) propagate() error {
	for len(r.dirty.list) > 0 {
		wave := r.dirty.list
		r.dirty = ordered[*Step]{}
		affected, err := r.notifyDependents(wave)
		if err != nil {
			return err
		}
		if err := r.updatePhases(affected); err != nil {
			return err
		}
	}
	return nil
}

// affectedSteps are steps that received a signal, with whether they waited for a person before.
type affectedSteps struct {
	ordered[*Step]
	gated map[*Step]bool
}

// include adds a step before its signal counts change.
func (a *affectedSteps) include(s *Step) {
	if a.has[s] {
		return
	}
	a.add(s)
	if s.Gates > 0 {
		if a.gated == nil {
			a.gated = map[*Step]bool{}
		}
		a.gated[s] = true
	}
}

// gateChanged reports whether a step started or stopped waiting for a person.
func (a *affectedSteps) gateChanged(s *Step) bool { return a.gated[s] != (s.Gates > 0) }

// notifyDependents passes the current signals of steps to their dependents.
func (r *Run) notifyDependents(steps []*Step) (affectedSteps, error) {
	var affected affectedSteps
	if r.halted() { // nothing starts any more, so dependents need no signals
		for _, s := range steps {
			s.Outcome, s.Gating = s.signal().outcome, false
			r.changedSteps.add(s)
		}
		return affected, nil
	}
	// Edges of steps with an unchanged signal are not visited.
	steps = slices.DeleteFunc(steps, func(s *Step) bool { return s.signal() == signal{s.Outcome, s.Gating} })
	if err := r.fetchDependents(steps); err != nil {
		return affected, err
	}
	for _, s := range steps {
		before, now := signal{s.Outcome, s.Gating}, s.signal()
		for _, e := range r.edgesFrom(s) {
			d := r.steps[e.Step]
			affected.include(d)
			d.applySignal(e, before, -1)
			d.applySignal(e, now, +1)
			r.changedSteps.add(d)
		}
		s.Outcome, s.Gating = now.outcome, now.gating
		r.changedSteps.add(s)
	}
	return affected, nil
}

// updatePhases opens, stops or reopens the steps whose dependencies changed.
func (r *Run) updatePhases(affected affectedSteps) error {
	var changed []*Step
	for _, s := range affected.list {
		r.markDirty(s)
		if !s.join() && (s.canOpen() || s.canReopen() || s.Concurrency != nil && affected.gateChanged(s)) {
			changed = append(changed, s)
		}
	}
	if err := r.fetchJobs(changed); err != nil {
		return err
	}
	for _, s := range changed {
		if err := r.updatePhase(s); err != nil {
			return err
		}
	}
	return nil
}

// canOpen reports whether the step waits and all its dependencies have ended.
func (s *Step) canOpen() bool { return s.Phase == PhaseWaiting && s.Unmet == 0 }

// canReopen reports whether a retry removed what stopped the step.
func (s *Step) canReopen() bool {
	return s.Phase == PhaseStopped && (s.Unmet > 0 || s.dependencyOutcome() == OutcomePassed)
}

// updatePhase moves a step to the phase that its dependencies allow.
func (r *Run) updatePhase(s *Step) error {
	if s.canReopen() {
		if err := r.enterPhase(s, PhaseWaiting, isStopped, r.await); err != nil {
			return err
		}
	}
	switch {
	case s.canOpen() && s.dependencyOutcome() == OutcomePassed:
		return r.enterPhase(s, PhaseOpen, isWaiting, r.release)
	case s.canOpen():
		return r.enterPhase(s, PhaseStopped, isWaiting, r.stop)
	case s.Concurrency != nil:
		for _, j := range r.jobsOf(s, isWaiting) {
			if s.queues(j) != j.Queued {
				r.change(j, func() {})
			}
		}
	}
	return nil
}

func isWaiting(s JobState) bool { return s == Pending || s == Waiting }
func isStopped(s JobState) bool { return s == WaitingFailed || s == BlockedFailed }

// enterPhase moves a step to a phase and calls do for its jobs in the given states.
func (r *Run) enterPhase(s *Step, p Phase, states func(JobState) bool, do func(*Step, *Job) error) error {
	s.Phase = p
	r.changedSteps.add(s)
	for _, j := range r.jobsOf(s, states) {
		if err := do(s, j); err != nil {
			return err
		}
	}
	r.markDirty(s)
	return nil
}

// release moves a job on that has no unmet dependencies.
func (r *Run) release(s *Step, j *Job) error {
	switch {
	case j.Type == Waiter:
		return r.move(j, Finished)
	case j.Type == Manual:
		return r.move(j, Blocked)
	case s.Concurrency != nil:
		return r.move(j, Limiting)
	}
	return r.move(j, Scheduled)
}

// stop ends a job whose dependencies failed or were canceled.
func (r *Run) stop(_ *Step, j *Job) error {
	if j.Type == Manual {
		return r.moveThrough(j, Blocked, BlockedFailed)
	}
	if j.State == Pending {
		return r.moveThrough(j, Waiting, WaitingFailed)
	}
	return r.move(j, WaitingFailed)
}

// await makes a job wait for its dependencies.
func (r *Run) await(_ *Step, j *Job) error { return r.move(j, Waiting) }

// moveThrough moves a job through several states.
func (r *Run) moveThrough(j *Job, states ...JobState) error {
	for _, to := range states {
		if err := r.move(j, to); err != nil {
			return err
		}
	}
	return nil
}

// The broken reasons of jobs whose dependencies can never be met.
const (
	reasonMissing = "dependency_missing"
	reasonCycle   = "dependency_cycle"
)

// breakStuckSteps breaks steps that can never run, once nothing else in the build can change. They wait for a
// key that no step has and no upload can add any more, or for each other across uploads. It reports whether
// there were any.
func (r *Run) breakStuckSteps() (bool, error) {
	if !r.isStuck() {
		return false, nil
	}
	steps, err := r.unfinished()
	if err != nil {
		return false, err
	}
	missing := slices.DeleteFunc(slices.Clone(steps), func(s *Step) bool { return s.Missing == 0 })
	if len(missing) == 0 {
		return r.breakCycles(slices.DeleteFunc(steps, (*Step).join))
	}
	if missing, err = r.withMembers(missing); err != nil {
		return false, err
	}
	for _, s := range missing {
		if err := r.breakStep(s, reasonMissing); err != nil {
			return false, err
		}
	}
	return true, nil
}

// isStuck reports whether every job that has not ended waits for another one.
func (r *Run) isStuck() bool {
	t := r.build.Counts
	return !r.halted() && t.Waiting > 0 && t.Live() == t.Waiting
}

// breakCycles breaks the first unfinished step that still waits, until the build is not stuck. It propagates
// after each step, since that may end or open others.
func (r *Run) breakCycles(steps []*Step) (broken bool, err error) {
	for _, s := range steps {
		if !r.isStuck() {
			break
		}
		if s.signal().outcome != "" {
			continue
		}
		broken = true
		if err := r.breakStep(s, reasonCycle); err != nil {
			return false, err
		}
		if err := r.propagate(); err != nil {
			return false, err
		}
	}
	return broken, nil
}

// breakStep ends the jobs of a step that can never run.
func (r *Run) breakStep(s *Step, reason string) error {
	return r.enterPhase(s, PhaseBroken, isWaiting, func(_ *Step, j *Job) error {
		j.BrokenReason, j.Unreachable = reason, true
		return r.move(j, Broken)
	})
}

// withMembers adds the steps behind joins: a group's dependencies belong to its join, but its members are the
// steps that never run.
func (r *Run) withMembers(steps []*Step) ([]*Step, error) {
	joins := slices.DeleteFunc(slices.Clone(steps), func(s *Step) bool { return !s.join() })
	if err := r.fetchDependents(joins); err != nil {
		return nil, err
	}
	var all ordered[*Step]
	for _, s := range steps {
		all.add(s)
	}
	for _, s := range joins {
		for _, e := range r.edgesFrom(s) {
			all.add(r.steps[e.Step])
		}
	}
	return all.list, r.fetchJobs(all.list)
}
