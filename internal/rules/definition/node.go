package definition

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/message"
)

// A reader traverses the nodes of one document, records problems, and counts visited nodes, once per alias that
// leads to a node.
type reader struct {
	source   []byte
	problems problemSet
	warnings problemSet
	inside   map[insideProblem]bool

	nodes, text, formats, patterns, expanded int
	// aborted is set when a limit was exceeded. From then on every value reads as absent and no problems are
	// recorded.
	aborted bool

	// open is set while variables are not interpolated yet.
	open bool

	jobs    int
	inGroup bool
	// keyLines holds the line of each step that has a key.
	keyLines map[string]int
	// conditions caches the error of each condition seen; nil means valid.
	conditions map[conditionKey]*condition.Error
	graph      graph
}

func newReader(source []byte) *reader {
	return &reader{
		source:     source,
		inside:     map[insideProblem]bool{},
		keyLines:   map[string]int{},
		conditions: map[conditionKey]*condition.Error{},
		graph:      graph{byKey: map[string]int{}},
	}
}

func (r *reader) problem(n *yaml.Node, format string, args ...any) {
	if !r.aborted && !r.problems.full() {
		r.problems.add(Problem{n.Line, n.Column, fmt.Sprintf(format, args...)})
	}
}

// An insideProblem is a problem at a position within a scalar's text.
type insideProblem struct {
	node    *yaml.Node
	problem Problem
}

// problemInside records a problem at a line and column (from 1) of a scalar's text. The source position is
// computed once per scalar, because that is slow.
func (r *reader) problemInside(n *yaml.Node, p Problem) {
	inside := insideProblem{n, p}
	if r.aborted || r.problems.full() || r.inside[inside] {
		return
	}
	r.inside[inside] = true
	p.Line, p.Column = positionInside(r.source, n, p.Line, p.Column)
	r.problems.add(p)
}

func (r *reader) warn(n *yaml.Node, format string, args ...any) {
	if !r.aborted && !r.warnings.full() {
		r.warnings.add(Problem{n.Line, n.Column, fmt.Sprintf(format, args...)})
	}
}

// abort records a final problem and stops reading.
func (r *reader) abort(n *yaml.Node, format string, args ...any) {
	r.problem(n, format, args...)
	r.aborted = true
}

// follow resolves aliases and counts the node.
func (r *reader) follow(n *yaml.Node) *yaml.Node {
	place := n
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.spend(1, place)
	r.text += len(n.Value)
	if r.text > maxText {
		r.abort(place, "the definition has more than %d bytes of text once its aliases are expanded", maxText)
	}
	return n
}

// spend counts nodes that were visited or copied by a merge key.
func (r *reader) spend(nodes int, place *yaml.Node) {
	r.nodes += nodes
	if r.nodes > maxNodes {
		r.abort(place, "the definition has more than %d keys and values once its aliases are expanded", maxNodes)
	}
}

func (r *reader) value(n *yaml.Node, name string) value {
	return value{r, r.follow(n), name}
}

// A value is a node with its name for messages. The node is nil for a missing attribute, which reads as the
// zero value. A node of the wrong shape also records a problem. Null is the same as absent.
type value struct {
	r    *reader
	node *yaml.Node
	name string
}

// present reports whether the attribute was written.
func (v value) present() bool { return v.node != nil && !v.r.aborted }

// set reports whether the attribute is present and not null.
func (v value) set() bool { return v.present() && !isNull(v.node) }

func (v value) is(kind yaml.Kind) bool { return v.set() && v.node.Kind == kind }

// pending reports whether the value contains a variable that is not interpolated yet.
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

// decided reports whether the value is set and not pending.
func (v value) decided() bool { return v.set() && !v.pending() }

// must records that the value is not what was expected.
func (v value) must(expected string) {
	v.r.problem(v.node, "%s must be %s, found %s", v.name, expected, describe(v.node))
}

// text returns a scalar as it was written: a version like 1.10 is text too.
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

// boolean returns a boolean, or missing if there is none. Interpolation produces strings, so "true" and "false"
// are accepted.
func (v value) boolean(missing bool) bool {
	if !v.decided() {
		return missing
	}
	b, ok := parseBool(v.node)
	if !ok {
		v.must("true or false")
		return missing
	}
	return b
}

func parseBool(n *yaml.Node) (b, ok bool) {
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

// All integers in a definition fit into 32 bits.
const (
	minInteger = math.MinInt32
	maxInteger = math.MaxInt32
)

// integer returns an integer within bounds, or nil. A string that is an integer is accepted.
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
		if v.r.aborted {
			return nil
		}
		items = append(items, item)
	}
	return items
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// describe names a node for a message that expected something else.
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
	return "the text " + message.Quote(n.Value)
}
