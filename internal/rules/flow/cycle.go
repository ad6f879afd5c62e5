package flow

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
)

// rejectCycles returns an error when new steps depend on each other. It adds the optional edges if they close
// no cycle.
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
	return core.Errorf(core.Unprocessable, "These steps depend on each other, so none of them can run: %s", strings.Join(names, ", "))
}

// cycleMembers returns the new steps that are part of a cycle or lie between two cycles.
func (l *linker) cycleMembers(edges []Edge) []*Step {
	remaining := make(map[string]*Step, len(l.newSteps))
	for _, s := range l.newSteps {
		remaining[s.ID] = s
	}
	inner := slices.DeleteFunc(slices.Clone(edges), func(e Edge) bool { return remaining[e.On] == nil || remaining[e.Step] == nil })
	trim(remaining, inner) // steps without remaining dependencies
	if len(remaining) == 0 {
		return nil
	}
	trim(remaining, reversed(inner)) // steps without remaining dependents
	steps := make([]*Step, 0, len(remaining))
	for _, s := range remaining {
		steps = append(steps, s)
	}
	return steps
}

// reversed returns the edges with both ends swapped.
func reversed(edges []Edge) []Edge {
	swapped := make([]Edge, len(edges))
	for i, e := range edges {
		swapped[i] = Edge{Step: e.On, On: e.Step}
	}
	return swapped
}

// trim repeatedly removes the steps that depend on no remaining step.
func trim(remaining map[string]*Step, edges []Edge) {
	incoming := map[string]int{}
	next := map[string][]string{}
	for _, e := range edges {
		if remaining[e.On] != nil && remaining[e.Step] != nil {
			incoming[e.Step]++
			next[e.On] = append(next[e.On], e.Step)
		}
	}
	var free []string
	for id := range remaining {
		if incoming[id] == 0 {
			free = append(free, id)
		}
	}
	for len(free) > 0 {
		id := free[len(free)-1]
		free = free[:len(free)-1]
		delete(remaining, id)
		for _, to := range next[id] {
			if incoming[to]--; incoming[to] == 0 {
				free = append(free, to)
			}
		}
	}
}
