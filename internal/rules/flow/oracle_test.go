package flow

import (
	"slices"
	"strings"

	"stackyard/internal/rules/definition"
)

// An oracle predicts how a pipeline ends straight from the rules of the step language, considering all steps
// for each question. It has no edges, joins, counts or events.
type oracle struct {
	plans []*plan // all existing and possible ones, by position
	byKey map[string]*plan
	known map[*plan]ending
}

// An ending is how a step ends.
type ending struct {
	// At most one of ran, stopped and unreachable is set; none if all jobs are broken by a condition.
	ran, stopped, unreachable bool
	outcome                   Outcome
}

// A condition is a requirement of one step on another.
type condition struct {
	outcome     Outcome
	allow       bool
	unreachable bool
}

func newOracle(l *list) *oracle {
	o := &oracle{byKey: map[string]*plan{}, known: map[*plan]ending{}}
	walk(l.plans, func(p *plan) {
		o.plans = append(o.plans, p)
		o.byKey[p.key] = p
	})
	return o
}

// added reports whether the build ever gets the step.
func (o *oracle) added(p *plan) bool {
	switch {
	case p.list.group != nil:
		return o.added(p.list.group)
	case p.list.uploader != nil:
		u := p.list.uploader
		return o.added(u) && o.ending(u).ran && u.fate != "cancel" && u.fate != "expire"
	}
	return true
}

func (o *oracle) ending(p *plan) ending {
	if known, ok := o.known[p]; ok {
		return known
	}
	e := o.judge(p)
	o.known[p] = e
	return e
}

func (o *oracle) judge(p *plan) ending {
	if p.kind == definition.KindGroup {
		return ending{outcome: worst(o.below(p))}
	}
	if p.broken {
		return ending{outcome: OutcomePassed}
	}
	conditions := o.conditions(p)
	if slices.ContainsFunc(conditions, func(c condition) bool { return c.unreachable }) {
		return ending{unreachable: true, outcome: OutcomeFailed}
	}
	switch verdict := worst(conditions); {
	case verdict == OutcomePassed:
		return ending{ran: true, outcome: p.worst()}
	case isBarrier(p):
		return ending{stopped: true, outcome: verdict}
	}
	return ending{stopped: true, outcome: OutcomeFailed}
}

func worst(conditions []condition) Outcome {
	verdict := OutcomePassed
	for _, c := range conditions {
		if c.outcome == OutcomeCanceled {
			return OutcomeCanceled
		}
		if c.outcome == OutcomeFailed && !c.allow {
			verdict = OutcomeFailed
		}
	}
	return verdict
}

func isBarrier(p *plan) bool {
	return !p.broken && (p.kind == definition.KindWait || p.kind == definition.KindBlock)
}

func (o *oracle) conditions(p *plan) []condition {
	if p.deps != nil {
		conditions := o.explicit(p, p)
		if g := p.list.group; g != nil && len(g.deps) > 0 {
			conditions = append(conditions, o.gate(g, p.allow))
		}
		return conditions
	}
	if !isBarrier(p) {
		return o.defaults(p, p.allow)
	}
	var conditions []condition
	for _, q := range o.plans { // every earlier step in its scope, including uploaded ones
		if q.kind != definition.KindGroup && q.position < p.position && o.added(q) && within(q, scope(p)) {
			conditions = append(conditions, condition{outcome: o.ending(q).outcome, allow: p.goesOn && !absorbed(p) || p.allow})
		}
	}
	if b := barrierBefore(p); b != nil {
		conditions = append(conditions, condition{outcome: o.ending(b).outcome})
	}
	if p.list.group != nil && lastBarrier(p.list, p.index) == nil {
		conditions = append(conditions, o.defaults(p, p.allow)...)
	}
	return conditions
}

// explicit returns the conditions of the depends_on of one step, for itself or for a member p.
func (o *oracle) explicit(of, p *plan) (conditions []condition) {
	for _, d := range of.deps {
		on := o.byKey[d.Step]
		allow := d.AllowFailure || of.allow
		if on == nil {
			conditions = append(conditions, condition{unreachable: true})
			continue
		}
		conditions = append(conditions, condition{outcome: o.ending(on).outcome, allow: allow})
		if !strings.HasPrefix(p.position, on.position+".") {
			for _, c := range o.below(on) {
				conditions = append(conditions, condition{outcome: c.outcome, allow: allow})
			}
		}
	}
	return conditions
}

// below returns the endings of all members and uploaded steps of a step.
func (o *oracle) below(p *plan) (conditions []condition) {
	for _, q := range o.plans {
		if strings.HasPrefix(q.position, p.position+".") && q.kind != definition.KindGroup && o.added(q) {
			conditions = append(conditions, condition{outcome: o.ending(q).outcome})
		}
	}
	return conditions
}

// gate returns the condition of the members of a group with depends_on.
func (o *oracle) gate(g *plan, allow bool) condition {
	conditions := o.explicit(g, g)
	if slices.ContainsFunc(conditions, func(c condition) bool { return c.unreachable }) {
		return condition{unreachable: true}
	}
	return condition{outcome: worst(conditions), allow: allow}
}

// defaults returns the conditions of a step without depends_on.
func (o *oracle) defaults(p *plan, allow bool) []condition {
	if b := lastBarrier(p.list, p.index); b != nil {
		return []condition{{outcome: o.ending(b).outcome}}
	}
	if g := p.list.group; g != nil {
		switch {
		case g.deps == nil:
			return o.defaults(g, allow)
		case len(g.deps) == 0:
			return nil
		}
		return []condition{o.gate(g, allow)}
	}
	if u := p.list.uploader; u != nil {
		return []condition{{outcome: o.ending(u).outcome, allow: allow}}
	}
	return nil
}

// lastBarrier returns the last barrier before an index of a list, or nil.
func lastBarrier(l *list, index int) *plan {
	for i := index - 1; i >= 0; i-- {
		if isBarrier(l.plans[i]) {
			return l.plans[i]
		}
	}
	return nil
}

// barrierBefore returns the barrier before a step in its list or, for an uploaded step, before its uploader.
func barrierBefore(p *plan) *plan {
	if b := lastBarrier(p.list, p.index); b != nil || p.list.uploader == nil {
		return b
	}
	return barrierBefore(p.list.uploader)
}

// scope returns the group that a wait is local to, or nil.
func scope(p *plan) *plan {
	if p.list.uploader != nil {
		return scope(p.list.uploader)
	}
	return p.list.group
}

func within(p, group *plan) bool {
	return group == nil || strings.HasPrefix(p.position, group.position+".")
}

// absorbed reports whether a wait is next to a block.
func absorbed(p *plan) bool {
	for _, i := range []int{p.index - 1, p.index + 1} {
		if i >= 0 && i < len(p.list.plans) && p.list.plans[i].kind == definition.KindBlock && !p.list.plans[i].broken {
			return true
		}
	}
	return false
}

// worst returns the outcome of a step that runs.
func (p *plan) worst() Outcome {
	verdict := OutcomePassed
	for i := range p.exits {
		switch state, soft := p.result(i); {
		case state == Canceled:
			return OutcomeCanceled
		case state != APIPassed && !soft:
			verdict = OutcomeFailed
		}
	}
	return verdict
}

// result returns how the last attempt of a job ends.
func (p *plan) result(index int) (state JobState, soft bool) {
	if index == 0 && p.fate == "cancel" {
		return Canceled, p.soft.Always
	}
	if index == 0 && p.fate == "expire" {
		return Expired, p.soft.Always
	}
	used := map[int]int{}
	for attempt := 0; ; attempt++ {
		exit := p.exit(index, attempt)
		if exit == 0 {
			return APIPassed, false
		}
		again := false
		for i, rule := range p.rules {
			if rule.ExitStatus.Any || slices.Contains(rule.ExitStatus.Codes, exit) {
				again = used[i] < rule.Limit
				used[i]++
				break
			}
		}
		if again {
			continue
		}
		soft = p.soft.Always || slices.Contains(p.soft.ExitStatus.Codes, exit)
		if index == 0 && attempt == 0 && p.fate == "timeout" {
			return TimedOut, soft
		}
		return APIFailed, soft
	}
}

// exit returns the exit status of an attempt of a job.
func (p *plan) exit(index, attempt int) int {
	if index < len(p.exits) && attempt < len(p.exits[index]) {
		return p.exits[index][attempt]
	}
	return 0
}

// results returns the final state of each job, by step and index, and of the build.
func (o *oracle) results() (jobs map[string][]JobState, build BuildState) {
	jobs = map[string][]JobState{}
	build = BuildNotRun
	for _, p := range o.plans {
		if p.kind == definition.KindGroup || !o.added(p) {
			continue
		}
		e := o.ending(p)
		for i := range max(1, len(p.exits)) {
			state, soft := Broken, true
			switch {
			case p.kind == definition.KindWait && e.ran:
				state = APIPassed
			case e.ran && p.exits == nil:
				state = Unblocked
			case e.ran:
				state, soft = p.result(i)
			case e.stopped && (p.kind == definition.KindBlock || p.kind == definition.KindInput):
				state = BlockedFailed
			case e.stopped:
				state = WaitingFailed
			case e.unreachable:
				soft = false
			}
			jobs[p.key] = append(jobs[p.key], state)
			switch {
			case !soft && state != APIPassed:
				build = BuildFailed
			case build == BuildNotRun && state != Broken && p.kind != definition.KindWait:
				build = BuildPassed
			case build == BuildNotRun && state == WaitingFailed:
				build = BuildPassed
			}
		}
	}
	return jobs, build
}
