package convert

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// A node is a node of the source. The zero node is something that is not there.
type node struct{ *yaml.Node }

// A pair is an entry of a mapping whose value is a text.
type pair struct{ key, value string }

// An entry is an entry of a mapping of the source.
type entry struct {
	key   string
	value node
}

func (n node) set() bool       { return n.Node != nil && n.Tag != "!!null" }
func (n node) isMapping() bool { return n.set() && n.Kind == yaml.MappingNode }
func (n node) isList() bool    { return n.set() && n.Kind == yaml.SequenceNode }

// get returns the value of a key in a mapping.
func (n node) get(key string) node {
	for _, p := range n.pairs() {
		if p.key == key {
			return p.value
		}
	}
	return node{}
}

func (n node) pairs() (list []entry) {
	if !n.isMapping() {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		list = append(list, entry{n.Content[i].Value, node{n.Content[i+1]}})
	}
	return list
}

// text returns a scalar as it is written.
func (n node) text() string {
	if !n.set() || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// items returns the items of a list, or a single value as a list of one.
func (n node) items() (list []node) {
	switch {
	case !n.set():
		return nil
	case !n.isList():
		return []node{n}
	}
	for _, child := range n.Content {
		list = append(list, node{child})
	}
	return list
}

// texts returns the scalars of a list, or a single one.
func (n node) texts() (list []string) {
	for _, item := range n.items() {
		if item.Kind == yaml.ScalarNode {
			list = append(list, item.Value)
		}
	}
	return list
}

// built is a mapping of the converted pipeline.
type built struct{ *yaml.Node }

func mapping() built { return built{&yaml.Node{Kind: yaml.MappingNode}} }

func (b built) add(key string, value *yaml.Node) {
	b.Content = append(b.Content, textNode(key), value)
}

// addText adds a text, unless it is empty.
func (b built) addText(key, text string) {
	if text != "" {
		b.add(key, textNode(text))
	}
}

// textNode returns a text that stays one: the encoder quotes "true" and "1".
func textNode(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}

func listNode(texts []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, t := range texts {
		n.Content = append(n.Content, textNode(t))
	}
	return n
}

func pairsNode(pairs []pair) *yaml.Node {
	m := mapping()
	for _, p := range pairs {
		m.add(p.key, textNode(p.value))
	}
	return m.Node
}

// scriptNode returns commands: one as a text, several as a list, with lines as they are.
func scriptNode(commands []string) *yaml.Node {
	one := func(command string) *yaml.Node {
		n := textNode(strings.TrimRight(command, "\n"))
		if strings.Contains(n.Value, "\n") {
			n.Style = yaml.LiteralStyle
		}
		return n
	}
	if len(commands) == 1 {
		return one(commands[0])
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, c := range commands {
		n.Content = append(n.Content, one(c))
	}
	return n
}
