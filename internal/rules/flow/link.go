package flow

import (
	"fmt"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/definition"
)

// A linker turns a list of steps into edges.
//
// Within a list, a step without depends_on depends on the barrier before it. A barrier depends on
// the barrier before, and on its tally: the join of all steps since that one, and of the tally
// before. So the tally knows of every earlier step, while a wait with continue_on_failure may pass
// over what failed; and a retry changes the tally even when the wait has passed long ago.
type linker struct {
	r *Run
	// uploader is the step whose job adds the steps, nil for a new build.
	uploader *Step
	// keys has the new steps by key, and the existing ones that these speak of.
	keys     map[string]*Step
	explicit []explicit
	// lastInGroup is the last member so far of each concurrency group.
	lastInGroup map[string]*Step

	newSteps []*Step
	edges    []Edge
	// optional are edges that the specification adds to what people wrote; they give way where
	// they would close a circle.
	optional []Edge
	// linked has the index of each edge by its ends.
	linked map[[2]string]int
}

// explicit is a depends_on: of a step, or of a group, whose gate then is the step.
type explicit struct {
	step, position string
	on             []definition.Dependency
	allowFailure   bool
}

// A place is where in the list of a scope a linker stands.
type cursor struct {
	scope, position string
	// defaults are what a step without depends_on depends on. AllowFailure says that the step's
	// allow_dependency_failure counts there too; it does not for barriers.
	defaults []Edge
	// gate is the join of what the group depends on, which its members do beside their own.
	gate                   string
	barrier, beforeBarrier string
	// segment are the steps since the barrier.
	segment []string
	// head is set until the first barrier of a group, which depends on the defaults itself.
	head bool
}

// link adds steps to the build, with their edges. No job exists yet afterwards.
func (r *Run) link(specs []Spec, uploader *Step) error {
	l := &linker{
		r:           r,
		uploader:    uploader,
		keys:        map[string]*Step{},
		lastInGroup: map[string]*Step{},
		linked:      map[[2]string]int{},
	}
	if err := l.resolveKeys(specs); err != nil {
		return err
	}
	var start cursor
	if uploader != nil {
		var err error
		if start, err = l.afterUploader(uploader, specs); err != nil {
			return err
		}
	}
	top, err := l.linkList(specs, start)
	if err != nil {
		return err
	}
	if err := l.linkExplicit(); err != nil {
		return err
	}
	if uploader != nil {
		if err := l.linkUpload(top); err != nil {
			return err
		}
	}
	if err := l.rejectCycles(); err != nil {
		return err
	}
	return l.commit()
}

// resolveKeys notes the keys of new steps and finds the existing ones that these speak of.
func (l *linker) resolveKeys(specs []Spec) error {
	asked, err := l.registerKeys(specs)
	if err != nil || l.uploader == nil || len(asked) == 0 {
		return err
	}
	slices.Sort(asked)
	found, err := l.r.store.StepsByKey(slices.Compact(asked)...)
	if err != nil {
		return err
	}
	for _, s := range found {
		s = l.r.internStep(s)
		switch {
		case s.Replaced: // in this very run
		case l.keys[s.Key] != nil:
			return keyTaken(s.Key)
		default:
			l.keys[s.Key] = s
		}
	}
	return nil
}

// registerKeys notes the keys of new steps and returns all keys that are spoken of.
func (l *linker) registerKeys(specs []Spec) (asked []string, err error) {
	for _, spec := range specs {
		if s := spec.Step; s != nil && s.Key != "" {
			if l.keys[s.Key] != nil {
				return nil, keyTaken(s.Key)
			}
			l.keys[s.Key] = s
			asked = append(asked, s.Key)
		}
		for _, d := range spec.DependsOn {
			asked = append(asked, d.Step)
		}
		inner, err := l.registerKeys(spec.Members)
		if err != nil {
			return nil, err
		}
		asked = append(asked, inner...)
	}
	return asked, nil
}

func keyTaken(key string) error {
	return core.Errorf(core.Unprocessable, "The key %q belongs to another step of the build; keys must be unique in a build", key)
}

// position returns the place of the nth step in a list behind or below another.
func position(parent string, n int) string {
	if parent == "" {
		return fmt.Sprintf("%04d", n)
	}
	return fmt.Sprintf("%s.%04d", parent, n)
}

// linkList links the steps of one scope and returns the ids of those at its top.
func (l *linker) linkList(specs []Spec, p cursor) (top []string, err error) {
	for i, spec := range specs {
		at := position(p.position, i)
		if spec.Into != "" {
			members, err := l.linkMembers(spec, spec.Into, p, at)
			if err != nil {
				return nil, err
			}
			top = append(top, members...)
			p.segment = append(p.segment, members...)
			continue
		}
		s := spec.Step
		s.Position, s.Scope, s.Barrier, s.BeforeBarrier = at, p.scope, p.barrier, p.beforeBarrier
		l.newSteps = append(l.newSteps, s)
		top = append(top, s.ID)
		switch {
		case spec.barrier():
			absorbed := i > 0 && specs[i-1].blocks() || i+1 < len(specs) && specs[i+1].blocks()
			l.linkBarrier(spec, &p, s.ContinueOnFailure && !absorbed)
			continue
		case s.Kind == definition.KindGroup:
			if _, err := l.linkMembers(spec, s.ID, p, at); err != nil {
				return nil, err
			}
		default:
			l.dependOn(spec, p)
		}
		if err := l.linkConcurrency(s); err != nil {
			return nil, err
		}
		p.segment = append(p.segment, s.ID)
	}
	return top, nil
}

// linkBarrier reports whether the steps behind this one wait for it. One that is broken by a condition
// is as if it was not there.
func (s Spec) barrier() bool {
	return s.Step != nil && s.Step.barrier() && s.Jobs[0].BrokenReason == ""
}

// blocks reports whether the step is a live block step. A wait beside one is absorbed.
func (s Spec) blocks() bool {
	return s.barrier() && s.Step.Kind == definition.KindBlock
}

// dependOn makes a step depend on what it says, or else on the defaults of its place.
func (l *linker) dependOn(spec Spec, p cursor) {
	s := spec.Step
	if spec.DependsOn == nil {
		for _, d := range p.defaults {
			l.edge(s.ID, d.On, d.AllowFailure && s.AllowDependencyFailure)
		}
		return
	}
	l.explicit = append(l.explicit, explicit{s.ID, s.Position, spec.DependsOn, s.AllowDependencyFailure})
	if p.gate != "" {
		l.edge(s.ID, p.gate, s.AllowDependencyFailure)
	}
}

// linkBarrier links a wait or block step, and moves the place behind it.
func (l *linker) linkBarrier(spec Spec, p *cursor, goesOn bool) {
	s := spec.Step
	tally := l.join(KindJoin, p.segment...)
	if p.beforeBarrier != "" {
		l.edge(tally, p.beforeBarrier, false)
	}
	before := s.ID
	if spec.DependsOn != nil { // it waits for that alone, and all before it is left to the next barrier
		before = tally
	} else {
		l.edge(s.ID, tally, goesOn || s.AllowDependencyFailure)
	}
	if p.barrier != "" {
		l.edge(before, p.barrier, false)
	}
	if spec.DependsOn != nil || p.head {
		l.dependOn(spec, *p)
	}
	p.barrier, p.beforeBarrier, p.segment, p.head = s.ID, tally, nil, false
	p.defaults = []Edge{{On: s.ID}}
}

// linkMembers links the steps of a group. Its depends_on stands on a gate that the members depend on;
// the group depends on its members, so that whoever depends on the group does.
func (l *linker) linkMembers(spec Spec, group string, outer cursor, at string) (top []string, err error) {
	p := cursor{scope: group, position: at, defaults: outer.defaults, head: true}
	if spec.DependsOn != nil {
		p.defaults = nil
	}
	if len(spec.DependsOn) > 0 {
		p.gate = l.join(KindJoin)
		p.defaults = []Edge{{On: p.gate, AllowFailure: true}}
		allow := spec.Step != nil && spec.Step.AllowDependencyFailure
		l.explicit = append(l.explicit, explicit{p.gate, at, spec.DependsOn, allow})
	}
	top, err = l.linkList(spec.Members, p)
	for _, member := range top {
		l.edge(group, member, false)
	}
	return top, err
}

// linkConcurrency joins the members of a step's concurrency group that were added before it: who depends on
// the step depends on them too.
func (l *linker) linkConcurrency(s *Step) error {
	if s.Concurrency == nil {
		return nil
	}
	group := s.Concurrency.Group
	last, known := l.lastInGroup[group]
	if !known && l.uploader != nil {
		found, err := l.r.store.LastInGroup(group, s.Position)
		if err != nil {
			return err
		}
		if found != nil {
			last = l.r.internStep(found)
		}
	}
	l.lastInGroup[group] = s
	switch {
	case last == nil:
	case last.Ahead == "":
		s.Ahead = l.join(KindQueue, last.ID)
	default:
		s.Ahead = l.join(KindQueue, last.ID, last.Ahead)
	}
	return nil
}

// join makes a join of steps and returns its id.
func (l *linker) join(kind definition.Kind, on ...string) string {
	s := &Step{ID: l.r.newID(), Kind: kind}
	l.newSteps = append(l.newSteps, s)
	for _, id := range on {
		l.edge(s.ID, id, false)
	}
	return s.ID
}

// edge notes that a step depends on another.
func (l *linker) edge(step, on string, allowFailure bool) {
	l.addEdge(Edge{Step: step, On: on, AllowFailure: allowFailure})
}

// addEdge notes an edge once; where it is said twice, failure is allowed when it is both times.
func (l *linker) addEdge(e Edge) {
	ends := [2]string{e.Step, e.On}
	if e.On == "" {
		ends[1] = "key " + e.Key
	}
	if i, ok := l.linked[ends]; ok {
		l.edges[i].AllowFailure = l.edges[i].AllowFailure && e.AllowFailure
		return
	}
	l.linked[ends] = len(l.edges)
	l.edges = append(l.edges, e)
}

// linkExplicit turns what steps say that they depend on into edges, now that all keys are known.
func (l *linker) linkExplicit() error {
	for _, x := range l.explicit {
		if err := l.checkEdges(); err != nil {
			return err
		}
		for _, d := range x.on {
			allow := d.AllowFailure || x.allowFailure
			on := l.keys[d.Step]
			if on == nil {
				l.addEdge(Edge{Step: x.step, Key: d.Step, AllowFailure: allow})
				continue
			}
			l.edge(x.step, on.ID, allow)
			// What a step itself has uploaded is among its uploads, and cannot wait for them.
			if on.Uploads != "" && !strings.HasPrefix(x.position, on.Position+".") {
				l.edge(x.step, on.Uploads, allow)
			}
			if on.Ahead != "" {
				l.optional = append(l.optional, Edge{Step: x.step, On: on.Ahead, AllowFailure: allow})
			}
		}
	}
	return nil
}

// maxEdges bounds the dependencies between the steps of one build.
const maxEdges = 100_000

// checkEdges returns an error when the new edges are more than the build may have.
func (l *linker) checkEdges() error {
	if l.r.build.Counts.Edges+len(l.edges) > maxEdges {
		return core.Errorf(core.Unprocessable, "The steps of a build can have %d dependencies on each other, and these steps have more; put a wait step or a group between steps that all depend on the same ones", maxEdges)
	}
	return nil
}

// commit takes the new steps and edges into the run, and resolves the keys that were waited for.
func (l *linker) commit() error {
	if err := l.checkEdges(); err != nil {
		return err
	}
	r := l.r
	r.build.Counts.Edges += len(l.edges)
	for _, s := range l.newSteps {
		r.addStep(s)
	}
	var missing []string
	for _, e := range l.edges {
		for _, id := range []string{e.Step, e.On} {
			if id != "" && r.steps[id] == nil {
				missing = append(missing, id)
			}
		}
	}
	if err := r.fetchSteps(missing...); err != nil {
		return err
	}
	for _, e := range l.edges {
		r.newEdges = append(r.newEdges, e)
		s := r.steps[e.Step]
		r.changedSteps.add(s)
		if e.On == "" {
			s.Unmet++
			s.Missing++
			continue
		}
		r.addedEdges[e.On] = append(r.addedEdges[e.On], e)
		on := r.steps[e.On]
		s.applySignal(e, signal{on.Outcome, on.Gating}, +1)
		r.markDirty(s)
	}
	return l.resolveMissing()
}
