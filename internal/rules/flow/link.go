package flow

import (
	"fmt"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/definition"
)

// A linker converts a list of steps into edges.
//
// Within a list, a step without depends_on depends on the barrier before it. A barrier depends on the barrier
// before it, and on a join of all steps since that barrier and of the join before. So this join covers every
// earlier step, while a wait with continue_on_failure may pass despite failures; and a retry changes the join
// even long after the wait has passed.
type linker struct {
	r *Run
	// uploader is the step whose job adds the steps, nil for a new build.
	uploader *Step
	// keys maps keys to the new steps, and to the existing steps that new ones refer to.
	keys     map[string]*Step
	explicit []explicit
	// lastInGroup is the last member so far of each concurrency group.
	lastInGroup map[string]*Step

	newSteps []*Step
	edges    []Edge
	// optional are edges that the specification adds to the written ones. They are left out where they would
	// close a cycle.
	optional []Edge
	// linked maps the ends of an edge to its index.
	linked map[[2]string]int
}

// explicit is a depends_on of a step, or of a group; for a group, step is its gate.
type explicit struct {
	step, position string
	on             []definition.Dependency
	allowFailure   bool
}

// A cursor is the linker's position in the list of a scope.
type cursor struct {
	scope, position string
	// defaults are the dependencies of a step without depends_on. AllowFailure means that the step's
	// allow_dependency_failure applies; it does not apply to barriers.
	defaults []Edge
	// gate is the join of the group's dependencies. Members depend on it in addition to their own dependencies.
	gate                   string
	barrier, beforeBarrier string
	// segment contains the steps since the barrier.
	segment []string
	// head is set until the first barrier of a group, which depends on the defaults directly.
	head bool
}

// link adds steps to the build with their edges, but without jobs.
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

// resolveKeys registers the keys of new steps and finds the existing steps that new ones refer to.
func (l *linker) resolveKeys(specs []Spec) error {
	keys, err := l.registerKeys(specs)
	if err != nil || l.uploader == nil || len(keys) == 0 {
		return err
	}
	slices.Sort(keys)
	found, err := l.r.store.StepsByKey(slices.Compact(keys)...)
	if err != nil {
		return err
	}
	for _, s := range found {
		s = l.r.internStep(s)
		switch {
		case s.Replaced: // by this run
		case l.keys[s.Key] != nil:
			return keyTaken(s.Key)
		default:
			l.keys[s.Key] = s
		}
	}
	return nil
}

// registerKeys registers the keys of new steps. It returns these keys and those that depends_on refers to.
func (l *linker) registerKeys(specs []Spec) (keys []string, err error) {
	for _, spec := range specs {
		if s := spec.Step; s != nil && s.Key != "" {
			if l.keys[s.Key] != nil {
				return nil, keyTaken(s.Key)
			}
			l.keys[s.Key] = s
			keys = append(keys, s.Key)
		}
		for _, d := range spec.DependsOn {
			keys = append(keys, d.Step)
		}
		inner, err := l.registerKeys(spec.Members)
		if err != nil {
			return nil, err
		}
		keys = append(keys, inner...)
	}
	return keys, nil
}

func keyTaken(key string) error {
	return core.Errorf(core.Unprocessable, "The key %q belongs to another step of the build; keys must be unique in a build", key)
}

// position returns the position of the nth step in the list behind or below another.
func position(parent string, n int) string {
	if parent == "" {
		return fmt.Sprintf("%04d", n)
	}
	return fmt.Sprintf("%s.%04d", parent, n)
}

// linkList links the steps of one scope and returns the ids of those at the top level.
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

// barrier reports whether later steps wait for this one. A barrier that a condition broke has no effect.
func (s Spec) barrier() bool {
	return s.Step != nil && s.Step.barrier() && s.Jobs[0].BrokenReason == ""
}

// blocks reports whether the step is a block step that no condition broke. It absorbs a wait beside it.
func (s Spec) blocks() bool {
	return s.barrier() && s.Step.Kind == definition.KindBlock
}

// dependOn adds the step's explicit dependencies, or else the defaults of the cursor.
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

// linkBarrier links a wait or block step and moves the cursor behind it.
func (l *linker) linkBarrier(spec Spec, p *cursor, allowFailure bool) {
	s := spec.Step
	preceding := l.join(KindJoin, p.segment...)
	if p.beforeBarrier != "" {
		l.edge(preceding, p.beforeBarrier, false)
	}
	before := s.ID
	if spec.DependsOn != nil { // it waits only for these; the next barrier waits for everything before
		before = preceding
	} else {
		l.edge(s.ID, preceding, allowFailure || s.AllowDependencyFailure)
	}
	if p.barrier != "" {
		l.edge(before, p.barrier, false)
	}
	if spec.DependsOn != nil || p.head {
		l.dependOn(spec, *p)
	}
	p.barrier, p.beforeBarrier, p.segment, p.head = s.ID, preceding, nil, false
	p.defaults = []Edge{{On: s.ID}}
}

// linkMembers links the steps of a group. The group's depends_on applies to a gate that the members depend on.
// The group depends on its members, so a step that depends on the group waits for all of them.
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

// linkConcurrency joins the members of a step's concurrency group that were added before it. Steps that depend
// on this step depend on them too.
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

// join adds a join of steps and returns its id.
func (l *linker) join(kind definition.Kind, on ...string) string {
	s := &Step{ID: l.r.newID(), Kind: kind}
	l.newSteps = append(l.newSteps, s)
	for _, id := range on {
		l.edge(s.ID, id, false)
	}
	return s.ID
}

// edge makes a step depend on another.
func (l *linker) edge(step, on string, allowFailure bool) {
	l.addEdge(Edge{Step: step, On: on, AllowFailure: allowFailure})
}

// addEdge adds an edge once. If it is added twice, it allows failure only if both do.
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

// linkExplicit converts every depends_on into edges, now that all keys are known.
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
			// A step's own uploads are part of on.Uploads and cannot wait for it.
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

// maxEdges limits the dependencies between the steps of one build.
const maxEdges = 100_000

// checkEdges returns an error if the build would have more than maxEdges edges.
func (l *linker) checkEdges() error {
	if l.r.build.Counts.Edges+len(l.edges) > maxEdges {
		return core.Errorf(core.Unprocessable, "The steps of a build can have %d dependencies on each other, and these steps have more; put a wait step or a group between steps that all depend on the same ones", maxEdges)
	}
	return nil
}

// commit adds the new steps and edges to the run, and resolves edges that waited for their keys.
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
