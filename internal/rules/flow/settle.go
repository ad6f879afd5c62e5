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
		return s.verdict()
	case s.Unfinished > 0:
		return ""
	case s.Canceled > 0:
		return OutcomeCanceled
	case s.Failed > 0 && s.Phase == PhaseStopped && s.barrier():
		// What is behind a barrier depends on all that is before it, so a cancel shows through.
		return s.verdict()
	case s.Failed > 0:
		return OutcomeFailed
	}
	return OutcomePassed
}

// verdict returns what the step's dependencies, all ended, mean for it.
func (s *Step) verdict() Outcome {
	switch {
	case s.CanceledDependencies > 0:
		return OutcomeCanceled
	case s.FailedDependencies > 0:
		return OutcomeFailed
	}
	return OutcomePassed
}

// weigh adds what a dependency signals to the counts of the step that depends on it, or takes it
// away.
func (s *Step) weigh(e Edge, sig signal, by int) {
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

// stir notes that there may be something to tell about a step.
func (r *Run) stir(s *Step) {
	if s.signal() != (signal{s.Outcome, s.Gating}) {
		r.restless.add(s)
	}
}

// settle tells the dependents of restless steps, and theirs, until nothing moves any more. It goes
// in waves, so that a barrier which releases many steps costs a few queries and not a few for each.
func (r *Run) settle() error {
	for len(r.restless.list) > 0 {
		wave := r.restless.list
		r.restless = ordered[*Step]{}
		heard, err := r.tell(wave)
		if err != nil {
			return err
		}
		if err := r.decide(heard); err != nil {
			return err
		}
	}
	return nil
}

// hearings are steps that have been told something, and whether a person held them back before.
type hearings struct {
	ordered[*Step]
	gated map[*Step]bool
}

// hear notes that a step is about to be told something.
func (h *hearings) hear(s *Step) {
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

// regated reports whether a person has begun or ceased to hold a step back.
func (h *hearings) regated(s *Step) bool { return h.gated[s] != (s.Gates > 0) }

// tell tells the dependents of steps what these have come to.
func (r *Run) tell(steps []*Step) (hearings, error) {
	var heard hearings
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
			heard.hear(d)
			d.weigh(e, told, -1)
			d.weigh(e, now, +1)
			r.changedSteps.add(d)
		}
		s.Outcome, s.Gating = now.outcome, now.gating
		r.changedSteps.add(s)
	}
	return heard, nil
}

// decide opens, stops or reopens the steps that their dependencies allow or forbid to run.
func (r *Run) decide(heard hearings) error {
	var act []*Step
	for _, s := range heard.list {
		r.stir(s)
		if !s.join() && (s.opens() || s.reopens() || s.Concurrency != nil && heard.regated(s)) {
			act = append(act, s)
		}
	}
	if err := r.fetchJobs(act); err != nil {
		return err
	}
	for _, s := range act {
		if err := r.act(s); err != nil {
			return err
		}
	}
	return nil
}

// opens reports whether all that a waiting step depends on has ended.
func (s *Step) opens() bool { return s.Phase == PhaseWaiting && s.Unmet == 0 }

// reopens reports whether what stopped a step is gone, because of a retry.
func (s *Step) reopens() bool {
	return s.Phase == PhaseStopped && (s.Unmet > 0 || s.verdict() == OutcomePassed)
}

// act lets a step do what its dependencies allow.
func (r *Run) act(s *Step) error {
	if s.reopens() {
		if err := r.enter(s, PhaseWaiting, bringsBack, r.await); err != nil {
			return err
		}
	}
	switch {
	case s.opens() && s.verdict() == OutcomePassed:
		return r.enter(s, PhaseOpen, isWaiting, r.release)
	case s.opens():
		return r.enter(s, PhaseStopped, isWaiting, r.stop)
	case s.Concurrency != nil:
		for _, j := range r.jobsOf(s, isWaiting) {
			if s.queues(j) != j.Queued {
				r.change(j, func() {})
			}
		}
	}
	return nil
}

func isWaiting(s JobState) bool  { return s == Pending || s == Waiting }
func bringsBack(s JobState) bool { return s == WaitingFailed || s == BlockedFailed }

// enter takes a step to another phase, and its jobs that are in certain states with it.
func (r *Run) enter(s *Step, p Phase, states func(JobState) bool, do func(*Step, *Job) error) error {
	s.Phase = p
	r.changedSteps.add(s)
	for _, j := range r.jobsOf(s, states) {
		if err := do(s, j); err != nil {
			return err
		}
	}
	r.stir(s)
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
		return r.through(j, Blocked, BlockedFailed)
	}
	if j.State == Pending {
		return r.through(j, Waiting, WaitingFailed)
	}
	return r.move(j, WaitingFailed)
}

// await lets a job wait for what it depends on.
func (r *Run) await(_ *Step, j *Job) error { return r.move(j, Waiting) }

// through takes a job through several states.
func (r *Run) through(j *Job, states ...JobState) error {
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

// unstick breaks steps that wait for what can never come, when nothing else can happen any more: a
// key that no step has, which until now an upload could have brought, or each other, across
// uploads. It reports whether there were any.
func (r *Run) unstick() (bool, error) {
	if !r.stuck() {
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

// stuck reports whether all jobs that have not ended wait for each other.
func (r *Run) stuck() bool {
	t := r.build.Tally
	return !r.halted() && t.Waiting > 0 && t.Live() == t.Waiting
}

// breakCycles breaks the first of some unfinished steps, and then the first of those that still wait, until
// something can happen again. It settles after each, since that may end or open the others.
func (r *Run) breakCycles(steps []*Step) (broken bool, err error) {
	for _, s := range steps {
		if !r.stuck() {
			break
		}
		if s.signal().outcome != "" {
			continue
		}
		broken = true
		if err := r.breakStep(s, reasonCycle); err != nil {
			return false, err
		}
		if err := r.settle(); err != nil {
			return false, err
		}
	}
	return broken, nil
}

// breakStep ends the jobs of a step that can never run.
func (r *Run) breakStep(s *Step, reason string) error {
	return r.enter(s, PhaseBroken, isWaiting, func(_ *Step, j *Job) error {
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
