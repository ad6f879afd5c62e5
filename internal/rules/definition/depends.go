package definition

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// dependencies reads depends_on: a key, or a list of keys and of mappings with step and
// allow_failure. Null and an empty list mean no dependencies, which is not the same as none given. It
// also returns where each dependency stands.
func (v value) dependencies() ([]Dependency, []*yaml.Node) {
	const expected = "a step's key, or a list of keys and of mappings with step and allow_failure"
	if !v.present() {
		return nil, nil
	}
	if v.is(yaml.ScalarNode) {
		return []Dependency{{Step: v.dependency()}}, []*yaml.Node{v.node}
	}
	dependencies, places := []Dependency{}, []*yaml.Node{}
	for _, item := range v.list(expected) {
		key, allowFailure := item, false
		if item.is(yaml.MappingNode) {
			m := item.mapping(expected)
			key = m.get("step")
			if !key.present() {
				v.r.problem(item.node, "an entry of %s has no key step", v.name)
			}
			allowFailure = m.get("allow_failure").boolean(false)
			m.warnUnknown()
		}
		dependencies = append(dependencies, Dependency{key.dependency(), allowFailure})
		places = append(places, item.node)
	}
	return dependencies, places
}

// dependency reads the key of a step that must be named.
func (v value) dependency() string {
	if !v.is(yaml.ScalarNode) || v.node.Value == "" {
		if v.present() {
			v.must("a step's key")
		}
		return ""
	}
	return v.node.Value
}

// A graph holds which steps of a definition wait for which. A group is two of its nodes: members wait
// for the first, its gate, which waits for what the group depends on; the second, its end, waits for
// the members, and is what those wait for who depend on the group.
type graph struct {
	nodes []graphNode
	byKey map[string]int
	// gate is that of the group whose members are being added, when inside one.
	gate   int
	inside bool
}

type graphNode struct {
	name  string // in messages
	edges []edge
}

// An edge leads to what a node waits for: a step by its key, or a node where the key is empty.
type edge struct {
	key   string
	node  int
	place *yaml.Node // of the dependency, nil for what a group implies
}

// add adds a step that depends on others, whose keys stand at some places.
func (g *graph) add(s *Step, places []*yaml.Node) {
	node := graphNode{name: message.Quote(s.Key)}
	if s.Key == "" {
		node.name = fmt.Sprintf("the step on line %d", s.Line)
	}
	for i, d := range s.DependsOn {
		if d.Step != "" {
			node.edges = append(node.edges, edge{key: d.Step, place: places[i]})
		}
	}
	at := len(g.nodes)
	if g.inside {
		node.edges = append(node.edges, edge{node: g.gate})
		end := &g.nodes[g.gate+1]
		end.edges = append(end.edges, edge{node: at})
	}
	g.nodes = append(g.nodes, node)
	if s.Kind == KindGroup {
		at++
		g.nodes = append(g.nodes, graphNode{name: node.name, edges: []edge{{node: at - 1}}})
	}
	if s.Key != "" {
		g.byKey[s.Key] = at
	}
}

// enter says that the steps to come are members of the group that was added last.
func (g *graph) enter() { g.gate, g.inside = len(g.nodes)-2, true }

func (g *graph) leave() { g.inside = false }

// checkCircles reports steps that wait for themselves. A key that no step has may be that of a step
// which the build has already, or gets later.
func (r *reader) checkCircles() {
	w := graphWalk{graph: &r.graph, states: make([]visitState, len(r.graph.nodes))}
	w.report = func(place *yaml.Node, names []string) { r.problem(place, "%s", circle(names)) }
	for i := range r.graph.nodes {
		w.visit(i)
	}
}

// circle says who waits for whom.
func circle(names []string) string {
	const longest = 6
	if len(names) == 1 {
		return "the step " + strings.TrimPrefix(names[0], "the step ") + " depends on itself"
	}
	if len(names) > longest {
		names = append(slices.Clone(names[:longest]), "…")
	}
	return "the dependencies go in a circle: " + names[0] + " needs " + strings.Join(names[1:], ", which needs ") + ", which needs " + names[0]
}

// A graphWalk visits each node and edge of a graph once, deeply first.
type graphWalk struct {
	*graph
	states []visitState
	trail  []visit
	report func(place *yaml.Node, names []string)
	told   int
}

// visitState says whether a walk has not seen a node, is at or below it, or is done with it.
type visitState int

const (
	unseen visitState = iota
	open
	done
)

// A visit is a node that the walk is below, and the edge that it took from there.
type visit struct {
	node int
	edge edge
}

func (w *graphWalk) visit(node int) {
	if w.states[node] != unseen {
		return
	}
	w.states[node] = open
	for _, e := range w.nodes[node].edges {
		to := e.node
		if e.key != "" {
			known := false
			if to, known = w.byKey[e.key]; !known {
				continue
			}
		}
		w.trail = append(w.trail, visit{node, e})
		if w.states[to] == open && w.told < maxProblems {
			w.tell(to)
		}
		w.visit(to)
		w.trail = w.trail[:len(w.trail)-1]
	}
	w.states[node] = done
}

// tell reports the end of the trail, from the first visit of a node on, at the last dependency in it.
func (w *graphWalk) tell(first int) {
	begin := slices.IndexFunc(w.trail, func(v visit) bool { return v.node == first })
	var names []string
	var place *yaml.Node
	for _, v := range w.trail[begin:] {
		names = append(names, w.nodes[v.node].name)
		if v.edge.place != nil {
			place = v.edge.place
		}
	}
	names = slices.Compact(names)
	if last := len(names) - 1; last > 0 && names[last] == names[0] {
		names = names[:last] // both nodes of a group
	}
	w.report(place, names)
	w.told++
}
