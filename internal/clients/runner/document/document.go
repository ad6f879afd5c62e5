// Package document converts a pipeline file for upload: YAML or JSON, with variables interpolated as agents do,
// to JSON. It does not interpret steps; the server does.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Lookup returns the value of a variable, and whether it is set.
type Lookup func(name string) (value string, set bool)

// Limits, so that a small file with many aliases does not expand to a large one.
const (
	maxDepth = 100
	maxBytes = 4 << 20
)

// A Skipper decides about a step by its if_changed, as decoded from YAML. It returns why the step is skipped, or "" if it
// runs.
type Skipper func(ifChanged any) (reason string, err error)

// Read returns a pipeline file as JSON and keeps the order of keys. It interpolates variables unless env is
// nil. A list is treated as the steps of a pipeline. It replaces the if_changed of steps by what skip decides, unless
// skip is nil.
func Read(source []byte, env Lookup, skip Skipper) (json.RawMessage, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	top := doc.Content[0]
	if env != nil {
		if err := fill(top, env); err != nil {
			return nil, err
		}
	}
	w := writer{skip: skip}
	switch follow(top).Kind {
	case yaml.SequenceNode:
		w.text(`{"steps":`)
		w.steps(top, 0)
		w.text(`}`)
	case yaml.MappingNode:
		w.mapping(follow(top), 0, false)
	default:
		return nil, at(top, "a pipeline is a mapping with steps, or a list of steps")
	}
	return w.b.Bytes(), w.err
}

// at returns an error with the position of a node.
func at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d, column %d: %s", n.Line, n.Column, fmt.Sprintf(format, args...))
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// A writer writes nodes as JSON until an error occurs.
type writer struct {
	b      bytes.Buffer
	merged int // visited entries
	skip   Skipper
	err    error
}

func (w *writer) text(s string) { w.b.WriteString(s) }

func (w *writer) value(v any) {
	e := json.NewEncoder(&w.b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil && w.err == nil {
		w.err = err
	}
	w.b.Truncate(w.b.Len() - 1) // the encoder adds a line break
}

func (w *writer) node(n *yaml.Node, depth int) {
	n = follow(n)
	switch {
	case w.err != nil:
	case depth > maxDepth:
		w.err = at(n, "the file is nested more than %d deep", maxDepth)
	case w.b.Len() > maxBytes:
		w.err = at(n, "the pipeline has more than %d bytes once its aliases are filled in", maxBytes)
	case n.Kind == yaml.MappingNode:
		w.plainMapping(n, depth)
	case n.Kind == yaml.SequenceNode:
		w.text("[")
		for i, item := range n.Content {
			if i > 0 {
				w.text(",")
			}
			w.node(item, depth+1)
		}
		w.text("]")
	default:
		w.scalar(n)
	}
}

// plainMapping writes a mapping that is not a step.
func (w *writer) plainMapping(n *yaml.Node, depth int) {
	if entries := w.entries(n); w.err == nil {
		w.write(entries, depth, false)
	}
}

// mapping writes a pipeline, or a step of one.
func (w *writer) mapping(n *yaml.Node, depth int, isStep bool) {
	entries := w.entries(n)
	if isStep && w.err == nil {
		entries = w.decide(n, entries)
	}
	if w.err != nil {
		return
	}
	w.write(entries, depth, true)
}

// write writes entries. hasSteps says that a list of steps can be among them.
func (w *writer) write(entries []entry, depth int, hasSteps bool) {
	w.text("{")
	for i, e := range entries {
		if i > 0 {
			w.text(",")
		}
		w.value(e.key)
		w.text(":")
		if hasSteps && e.key == "steps" {
			w.steps(e.value, depth+1)
		} else {
			w.node(e.value, depth+1)
		}
	}
	w.text("}")
}

// steps writes a list of steps.
func (w *writer) steps(n *yaml.Node, depth int) {
	n = follow(n)
	if n.Kind != yaml.SequenceNode || depth > maxDepth {
		w.node(n, depth)
		return
	}
	w.text("[")
	for i, item := range n.Content {
		if i > 0 {
			w.text(",")
		}
		if item = follow(item); item.Kind == yaml.MappingNode && w.err == nil && w.b.Len() <= maxBytes {
			w.mapping(item, depth+1, true)
		} else {
			w.node(item, depth+1)
		}
	}
	w.text("]")
}

// decide replaces the if_changed of a step by a skip, or by nothing.
func (w *writer) decide(n *yaml.Node, entries []entry) []entry {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.key == ifChanged })
	if i < 0 || w.skip == nil {
		return entries
	}
	var value any
	err := entries[i].value.Decode(&value)
	reason := ""
	if err == nil {
		reason, err = w.skip(value)
	}
	if err != nil {
		w.err = at(n, "%s", err)
		return nil
	}
	entries = slices.Delete(entries, i, i+1)
	if reason == "" {
		return entries
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.key == "skip" })
	return append(entries, entry{"skip", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: reason}})
}

const ifChanged = "if_changed"

// entries returns the entries of a mapping, with those that it merges.
func (w *writer) entries(n *yaml.Node) []entry {
	m := mapping{w: w, known: map[string]bool{}}
	m.add(n, false)
	return m.entries
}

// A mapping collects the entries of a mapping, followed by those of its merge keys (<<).
type mapping struct {
	w       *writer
	entries []entry
	known   map[string]bool
	merging int // depth
}

// An entry is a key of a mapping with its value.
type entry struct {
	key   string
	value *yaml.Node
}

// add adds the entries of a mapping. Merged entries do not replace others.
func (m *mapping) add(n *yaml.Node, merged bool) {
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content) && m.w.err == nil; i += 2 {
		key, value := follow(n.Content[i]), follow(n.Content[i+1])
		m.w.merged++
		switch {
		case m.w.merged > maxBytes:
			m.w.err = at(n, "too much is merged")
		case key.Kind != yaml.ScalarNode:
			m.w.err = at(key, "a key must be a text")
		case key.Tag == "!!merge":
			merges = append(merges, value)
		case !m.known[key.Value]:
			m.known[key.Value] = true
			m.entries = append(m.entries, entry{key.Value, value})
		case !merged:
			m.w.err = at(key, "%q is there twice", key.Value)
		}
	}
	for _, from := range merges {
		m.merge(from)
	}
}

// merge adds the value of a merge key: a mapping or a list of mappings.
func (m *mapping) merge(from *yaml.Node) {
	items := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		items = from.Content
	}
	m.merging++
	defer func() { m.merging-- }()
	for _, item := range items {
		item = follow(item)
		switch {
		case m.w.err != nil:
		case item.Kind != yaml.MappingNode:
			m.w.err = at(item, "only mappings can be merged")
		case m.merging > maxDepth:
			m.w.err = at(item, "mappings are merged more than %d deep", maxDepth)
		default:
			m.add(item, true)
		}
	}
}

// scalar writes the value of a scalar. Dates, and numbers that JSON does not have, become strings.
func (w *writer) scalar(n *yaml.Node) {
	switch n.Tag {
	case "!!null":
		w.text("null")
	case "!!bool":
		w.text(strconv.FormatBool(strings.EqualFold(n.Value, "true")))
	case "!!int", "!!float":
		var v any
		if n.Decode(&v) != nil || !isNumber(v) {
			v = n.Value
		}
		w.value(v)
	default:
		w.value(n.Value)
	}
}

// isNumber reports whether JSON can represent a value as a number.
func isNumber(v any) bool {
	_, err := json.Marshal(v)
	return err == nil
}
