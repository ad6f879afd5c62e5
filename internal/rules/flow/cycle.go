package flow

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
)

// rejectCycles returns an error when new steps depend on each other.
func (l *linker) rejectCycles() error {
	if len(l.cycleMembers(slices.Concat(l.edges, l.optional))) == 0 {
		for _, e := range l.optional {
			l.addEdge(e)
		}
		return nil
	}
	var names []string
	for _, s := range l.cycleMembers(l.edges) {
		if s.Key != "" && len(names) < 10 {
			names = append(names, s.Key)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return core.Errorf(core.Unprocessable, "These steps depend on each other, so that none of them could ever run: %s", strings.Join(names, ", "))
}

// cycleMembers returns the new steps that are part of a circle of edges, or lie between two.
func (l *linker) cycleMembers(edges []Edge) []*Step {
	left := make(map[string]*Step, len(l.newSteps))
	for _, s := range l.newSteps {
		left[s.ID] = s
	}
	inner := slices.DeleteFunc(slices.Clone(edges), func(e Edge) bool { return left[e.On] == nil || left[e.Step] == nil })
	// Whoever depends on nothing that is left can go, and then whoever nothing left depends on.
	for _, end := range []func(Edge) (from, to string){
		func(e Edge) (string, string) { return e.On, e.Step },
		func(e Edge) (string, string) { return e.Step, e.On },
	} {
		trim(left, inner, end)
	}
	steps := make([]*Step, 0, len(left))
	for _, s := range left {
		steps = append(steps, s)
	}
	return steps
}

// trim removes the steps that no edge leads to, again and again.
func trim(left map[string]*Step, edges []Edge, end func(Edge) (from, to string)) {
	coming := map[string]int{}
	next := map[string][]string{}
	for _, e := range edges {
		from, to := end(e)
		if left[from] != nil && left[to] != nil {
			coming[to]++
			next[from] = append(next[from], to)
		}
	}
	var free []string
	for id := range left {
		if coming[id] == 0 {
			free = append(free, id)
		}
	}
	for len(free) > 0 {
		id := free[len(free)-1]
		free = free[:len(free)-1]
		delete(left, id)
		for _, to := range next[id] {
			if coming[to]--; coming[to] == 0 {
				free = append(free, to)
			}
		}
	}
}
