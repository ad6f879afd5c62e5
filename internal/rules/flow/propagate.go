package flow

import "slices"

// A signal is what the dependents of a step are told about it.
type signal struct {
	outcome Outcome
	gating  bool
}

// signal returns what there is to tell about the step.
func (s *Step) signal() signal {
	outcome := s.outcome()
	return signal{outcome, outcome == "" && (s.manual() || s.Gates > 0)}
}

// outcome returns how the step ended, from its counts.
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
		// What is behind a barrier depends on all that is before it, so a cancel shows through.
		return s.dependencyOutcome()
	case s.Failed > 0:
		return OutcomeFailed
	}
	return OutcomePassed
}

// dependencyOutcome returns what the step's dependencies, all ended, mean for it.
func (s *Step) dependencyOutcome() Outcome {
	switch {
	case s.CanceledDependencies > 0:
		return OutcomeCanceled
	case s.FailedDependencies > 0:
		return OutcomeFailed
	}
	return OutcomePassed
}

// applySignal adds what a dependency signals to the counts of the step that depends on it, or takes it
// away.
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

// markDirty notes that there may be something to tell about a step.
func (r *Run) markDirty(s *Step) {
	if s.signal() != (signal{s.Outcome, s.Gating}) {
		r.dirty.add(s)
	}
}

// propagate tells the dependents of restless steps, and theirs, until nothing moves any more. It goes
// in waves, so that a barrier which releases many steps costs a few queries and not a few for each.
func (r *Run) propagate() error {
	for len(r.dirty.list) > 0 {
		wave := r.dirty.list
		r.dirty = ordered[*Step]{}
		heard, err := r.notifyDependents(wave)
		if err != nil {
			return err
		}
		if err := r.updatePhases(heard); err != nil {
			return err
		}
	}
	return nil
}

// affectedSteps are steps that have been told something, and whether a person held them back before.
type affectedSteps struct {
	ordered[*Step]
	gated map[*Step]bool
}

// include notes that a step is about to be told something.
func (h *affectedSteps) include(s *Step) {
	if h.has[s] {
		return
	}
	h.add(s)
	if s.Gates > 0 {
		if h.gated == nil {
			h.gated = map[*Step]bool{}
		}
		h.gated[s] = true
	}
}

// gateChanged reports whether a person has begun or ceased to hold a step back.
func (h *affectedSteps) gateChanged(s *Step) bool { return h.gated[s] != (s.Gates > 0) }

// notifyDependents tells the dependents of steps what these have come to.
func (r *Run) notifyDependents(steps []*Step) (affectedSteps, error) {
	var heard affectedSteps
	if r.halted() { // nothing begins any more, so nobody listens
		for _, s := range steps {
			s.Outcome, s.Gating = s.signal().outcome, false
			r.changedSteps.add(s)
		}
		return heard, nil
	}
	// A step whose signal is as before has nothing to tell; its edges are not visited.
	steps = slices.DeleteFunc(steps, func(s *Step) bool { return s.signal() == signal{s.Outcome, s.Gating} })
	if err := r.fetchDependents(steps); err != nil {
		return heard, err
	}
	for _, s := range steps {
		told, now := signal{s.Outcome, s.Gating}, s.signal()
		for _, e := range r.edgesFrom(s) {
			d := r.steps[e.Step]
			heard.include(d)
			d.applySignal(e, told, -1)
			d.applySignal(e, now, +1)
			r.changedSteps.add(d)
		}
		s.Outcome, s.Gating = now.outcome, now.gating
		r.changedSteps.add(s)
	}
	return heard, nil
}

// updatePhases opens, stops or reopens the steps that their dependencies allow or forbid to run.
func (r *Run) updatePhases(heard affectedSteps) error {
	var act []*Step
	for _, s := range heard.list {
		r.markDirty(s)
		if !s.join() && (s.canOpen() || s.canReopen() || s.Concurrency != nil && heard.gateChanged(s)) {
			act = append(act, s)
		}
	}
	if err := r.fetchJobs(act); err != nil {
		return err
	}
	for _, s := range act {
		if err := r.updatePhase(s); err != nil {
			return err
		}
	}
	return nil
}

// canOpen reports whether all that a waiting step depends on has ended.
func (s *Step) canOpen() bool { return s.Phase == PhaseWaiting && s.Unmet == 0 }

// canReopen reports whether what stopped a step is gone, because of a retry.
func (s *Step) canReopen() bool {
	return s.Phase == PhaseStopped && (s.Unmet > 0 || s.dependencyOutcome() == OutcomePassed)
}

// updatePhase lets a step do what its dependencies allow.
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

// enterPhase takes a step to another phase, and its jobs that are in certain states with it.
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

// release lets a job go that nothing holds back any more.
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

// stop ends a job that may not run because of what it depends on.
func (r *Run) stop(_ *Step, j *Job) error {
	if j.Type == Manual {
		return r.moveThrough(j, Blocked, BlockedFailed)
	}
	if j.State == Pending {
		return r.moveThrough(j, Waiting, WaitingFailed)
	}
	return r.move(j, WaitingFailed)
}

// await lets a job wait for what it depends on.
func (r *Run) await(_ *Step, j *Job) error { return r.move(j, Waiting) }

// moveThrough takes a job through several states.
func (r *Run) moveThrough(j *Job, states ...JobState) error {
	for _, to := range states {
		if err := r.move(j, to); err != nil {
			return err
		}
	}
	return nil
}

// The reasons of jobs that depend on what can never come.
const (
	reasonMissing = "dependency_missing"
	reasonCycle   = "dependency_cycle"
)

// breakStuckSteps breaks steps that wait for what can never come, when nothing else can happen any more: a
// key that no step has, which until now an upload could have brought, or each other, across
// uploads. It reports whether there were any.
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

// isStuck reports whether all jobs that have not ended wait for each other.
func (r *Run) isStuck() bool {
	t := r.build.Counts
	return !r.halted() && t.Waiting > 0 && t.Live() == t.Waiting
}

// breakCycles breaks the first of some unfinished steps, and then the first of those that still wait, until
// something can happen again. It settles after each, since that may end or open the others.
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

// withMembers adds to joins the steps behind them: it is a group's join that has the group's
// dependencies, and its members that never run.
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
