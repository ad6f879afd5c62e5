package definition

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// dependencies reads depends_on: a key, or a list of keys and of mappings with step and allow_failure. Null and
// an empty list mean that the step depends on nothing; a missing depends_on means that barriers apply. It also
// returns the node of each dependency.
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

// dependency reads the key of a step, which must not be empty.
func (v value) dependency() string {
	if !v.is(yaml.ScalarNode) || v.node.Value == "" {
		if v.present() {
			v.must("a step's key")
		}
		return ""
	}
	return v.node.Value
}

// A graph holds the dependencies between the steps of a definition. A group has two nodes: its members depend
// on the first, the gate, which depends on the group's dependencies. The second, the end, depends on the
// members; steps that depend on the group depend on it.
type graph struct {
	nodes []graphNode
	byKey map[string]int
	// gate is the gate of the group whose members are being added, if inside is set.
	gate   int
	inside bool
}

type graphNode struct {
	name  string // in messages
	edges []edge
}

// An edge leads to a dependency: a step by its key, or a node if the key is empty.
type edge struct {
	key   string
	node  int
	place *yaml.Node // the dependency in the source; nil for those that a group implies
}

// add adds a step with its dependencies. places are their nodes in the source.
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

// enter makes the following steps members of the group that was added last.
func (g *graph) enter() { g.gate, g.inside = len(g.nodes)-2, true }

func (g *graph) leave() { g.inside = false }

// checkCycles records a problem for each dependency cycle. It ignores unknown keys: the build may have such a
// step already, or get it later.
func (r *reader) checkCycles() {
	w := graphWalk{graph: &r.graph, states: make([]visitState, len(r.graph.nodes))}
	w.report = func(place *yaml.Node, names []string) { r.problem(place, "%s", cycleMessage(names)) }
	for i := range r.graph.nodes {
		w.visit(i)
	}
}

// cycleMessage describes a cycle.
func cycleMessage(names []string) string {
	const longest = 6
	if len(names) == 1 {
		return "the step " + strings.TrimPrefix(names[0], "the step ") + " depends on itself"
	}
	if len(names) > longest {
		names = append(slices.Clone(names[:longest]), "…")
	}
	return "the dependencies go in a circle: " + names[0] + " needs " + strings.Join(names[1:], ", which needs ") + ", which needs " + names[0]
}

// A graphWalk visits each node and edge of a graph once, depth first.
type graphWalk struct {
	*graph
	states   []visitState
	path     []visit
	report   func(place *yaml.Node, names []string)
	reported int
}

// visitState is the progress of a walk at a node. A node is open while the walk is at or below it.
type visitState int

const (
	unseen visitState = iota
	open
	done
)

// A visit is a node on the path of the walk, with the edge that it followed.
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
		w.path = append(w.path, visit{node, e})
		if w.states[to] == open && w.reported < maxProblems {
			w.reportCycle(to)
		}
		w.visit(to)
		w.path = w.path[:len(w.path)-1]
	}
	w.states[node] = done
}

// reportCycle reports the part of the path that starts at a node, at its last dependency.
func (w *graphWalk) reportCycle(first int) {
	begin := slices.IndexFunc(w.path, func(v visit) bool { return v.node == first })
	var names []string
	var place *yaml.Node
	for _, v := range w.path[begin:] {
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
	w.reported++
}
