package definition

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A reader walks the nodes of one document. It notes what is wrong with them and counts what it
// visits, each node as often as an alias leads to it.
type reader struct {
	source   []byte
	problems notebook
	warnings notebook
	inside   map[insideProblem]bool

	nodes, text, formats, patterns, expanded int
	// spent is set when a bound was passed. From then on every value reads as absent, and no problem
	// is noted, since it might not be one.
	spent bool

	// open says that variables are not filled in yet.
	open bool

	jobs    int
	inGroup bool
	// keyLines holds the line of each step that has a key.
	keyLines map[string]int
	// conditions holds what is wrong with each condition that was seen, nil for nothing.
	conditions map[conditionKey]*ConditionError
	graph      graph
}

func newReader(source []byte) *reader {
	return &reader{
		source:     source,
		inside:     map[insideProblem]bool{},
		keyLines:   map[string]int{},
		conditions: map[conditionKey]*ConditionError{},
		graph:      graph{byKey: map[string]int{}},
	}
}

func (r *reader) problem(n *yaml.Node, format string, args ...any) {
	if !r.spent && !r.problems.full() {
		r.problems.add(Problem{n.Line, n.Column, fmt.Sprintf(format, args...)})
	}
}

// An insideProblem is one with a part of a scalar's text, by the line and column in it.
type insideProblem struct {
	node    *yaml.Node
	problem Problem
}

// problemInside notes a problem with a line and column of a scalar's text, which count from one. It
// looks for the place once, however often aliases lead to the scalar: that takes time.
func (r *reader) problemInside(n *yaml.Node, p Problem) {
	inside := insideProblem{n, p}
	if r.spent || r.problems.full() || r.inside[inside] {
		return
	}
	r.inside[inside] = true
	p.Line, p.Column = placeInside(r.source, n, p.Line, p.Column)
	r.problems.add(p)
}

func (r *reader) warn(n *yaml.Node, format string, args ...any) {
	if !r.spent && !r.warnings.full() {
		r.warnings.add(Problem{n.Line, n.Column, fmt.Sprintf(format, args...)})
	}
}

// giveUp notes a last problem, after which nothing more is read.
func (r *reader) giveUp(n *yaml.Node, format string, args ...any) {
	r.problem(n, format, args...)
	r.spent = true
}

// follow returns the node that n stands for, and counts it.
func (r *reader) follow(n *yaml.Node) *yaml.Node {
	place := n
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.spend(1, place)
	r.text += len(n.Value)
	if r.text > maxText {
		r.giveUp(place, "the definition has more than %d bytes of text once its aliases are expanded", maxText)
	}
	return n
}

// spend counts nodes that were visited, or copied by a merge key.
func (r *reader) spend(nodes int, place *yaml.Node) {
	r.nodes += nodes
	if r.nodes > maxNodes {
		r.giveUp(place, "the definition has more than %d keys and values once its aliases are expanded", maxNodes)
	}
}

func (r *reader) value(n *yaml.Node, name string) value {
	return value{r, r.follow(n), name}
}

// A value is a node with the name that messages call it by. The zero node is that of an attribute
// which is not there. Reading methods return the zero value for it without a word; for a node of the
// wrong shape they also note a problem. Null is as good as absent.
type value struct {
	r    *reader
	node *yaml.Node
	name string
}

// present reports whether the attribute was written at all.
func (v value) present() bool { return v.node != nil && !v.r.spent }

// set reports whether the attribute was written and is not null.
func (v value) set() bool { return v.present() && !isNull(v.node) }

func (v value) is(kind yaml.Kind) bool { return v.set() && v.node.Kind == kind }

// pending reports whether the value has a variable that is not filled in yet: it may become anything.
func (v value) pending() bool {
	return v.is(yaml.ScalarNode) && v.r.pending(v.node.Value)
}

func (r *reader) pending(text string) bool {
	if !r.open {
		return false
	}
	found, err := scanVariables(text)
	return found || err != nil
}

// decided reports whether the value is set and known.
func (v value) decided() bool { return v.set() && !v.pending() }

// must notes that the value is not what it must be.
func (v value) must(expected string) {
	v.r.problem(v.node, "%s must be %s, found %s", v.name, expected, describe(v.node))
}

// text returns a scalar as it was written: a version such as 1.10 is text too.
func (v value) text() string {
	if !v.set() {
		return ""
	}
	if v.node.Kind != yaml.ScalarNode {
		v.must("text")
		return ""
	}
	return v.node.Value
}

// texts returns one text or a list of them.
func (v value) texts() []string {
	if !v.set() {
		return nil
	}
	if v.node.Kind == yaml.MappingNode {
		v.must("text or a list of texts")
		return nil
	}
	if v.node.Kind == yaml.ScalarNode {
		return []string{v.node.Value}
	}
	var texts []string
	for _, item := range v.list("a list of texts") {
		if item.set() {
			texts = append(texts, item.text())
		}
	}
	return texts
}

// boolean returns a truth, or missing when there is none. Variables leave texts behind, so the texts
// true and false will do.
func (v value) boolean(missing bool) bool {
	if !v.decided() {
		return missing
	}
	b, ok := truth(v.node)
	if !ok {
		v.must("true or false")
		return missing
	}
	return b
}

func truth(n *yaml.Node) (b, ok bool) {
	if n.Kind != yaml.ScalarNode {
		return false, false
	}
	switch n.Value {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

// Every whole number that a definition holds fits into 32 bits.
const (
	minInteger = math.MinInt32
	maxInteger = math.MaxInt32
)

// integer returns a whole number between two bounds, or nil. A text that is one will do.
func (v value) integer(low, high int) *int {
	if !v.decided() {
		return nil
	}
	n, ok := wholeNumber(v.node)
	if !ok || n < int64(low) || n > int64(high) {
		v.must(fmt.Sprintf("a whole number from %d to %d", low, high))
		return nil
	}
	i := int(n)
	return &i
}

func wholeNumber(n *yaml.Node) (int64, bool) {
	if n.Kind != yaml.ScalarNode {
		return 0, false
	}
	i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
	return i, err == nil
}

// oneOf returns a text out of several, or "" when there is none.
func (v value) oneOf(allowed ...string) string {
	if !v.decided() {
		return ""
	}
	if v.node.Kind == yaml.ScalarNode {
		for _, word := range allowed {
			if v.node.Value == word {
				return word
			}
		}
	}
	v.must("one of " + strings.Join(allowed, ", "))
	return ""
}

// list returns the items of a list. Expected says in words what the value must be.
func (v value) list(expected string) []value {
	if !v.set() {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		v.must(expected)
		return nil
	}
	items := make([]value, 0, len(v.node.Content))
	for _, child := range v.node.Content {
		item := v.r.value(child, v.name)
		if v.r.spent {
			return nil
		}
		items = append(items, item)
	}
	return items
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// describe says what a node is, for a message that expected something else.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.AliasNode:
		return describe(n.Alias)
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float", "!!bool":
		return n.Value
	}
	return "the text " + quote(n.Value)
}

// quote quotes a text for a message, cut where it would fill the screen.
func quote(s string) string {
	const longest = 60
	if runes := []rune(s[:min(len(s), 4*longest)]); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return strconv.Quote(s)
}
