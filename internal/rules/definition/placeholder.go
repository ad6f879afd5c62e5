package definition

import (
	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// checkPlaceholders checks the attributes of a step that support placeholders: each placeholder must name a
// dimension, and the expanded text must not be too large.
func (m *mapping) checkPlaceholders(matrix *Matrix) {
	c := placeholderCheck{r: m.r, matrix: matrix, longest: matrix.longest()}
	c.attribute(m.get("label", "name"), false)
	c.attribute(m.get("command", "commands", "script"), false)
	c.attribute(m.get("env"), false)
	c.attribute(m.get("agents", "agent_query_rules"), true)
	c.attribute(m.get("plugins"), true)
	m.r.expanded += c.copied * min(matrix.jobs(), maxJobs)
	if m.r.expanded > maxExpanded {
		m.r.abort(m.key("matrix"), "the texts with placeholders have more than %d bytes in the jobs of all matrices", maxExpanded)
	}
}

// A placeholderCheck checks the attributes of one step with a matrix.
type placeholderCheck struct {
	r      *reader
	matrix *Matrix
	// longest has the length of the longest value of each dimension.
	longest []int
	// copied estimates the bytes that are copied for each job.
	copied int
	// nodes counts the nodes of the current attribute, texts the bytes of its texts with placeholders.
	nodes, texts int
}

// attribute checks the texts of an attribute, including the keys of mappings if keys is set.
func (c *placeholderCheck) attribute(v value, keys bool) {
	if !v.set() {
		return
	}
	const node = 64 // estimated bytes
	c.nodes, c.texts = 0, 0
	c.walk(v.node, keys, 0)
	if c.texts > 0 {
		c.copied += c.nodes*node + c.texts
	}
}

func (c *placeholderCheck) walk(n *yaml.Node, keys bool, depth int) {
	if depth > maxDepth || c.r.aborted {
		return
	}
	c.nodes++
	switch n.Kind {
	case yaml.ScalarNode:
		c.text(n)
	case yaml.SequenceNode:
		for _, child := range n.Content {
			c.walk(c.r.follow(child), keys, depth+1)
		}
	case yaml.MappingNode:
		for _, e := range c.r.entries(n) {
			if keys {
				c.walk(c.r.follow(e.key), keys, depth+1)
			}
			c.walk(c.r.follow(e.value), keys, depth+1)
		}
	}
}

func (c *placeholderCheck) text(n *yaml.Node) {
	matches := placeholder.FindAllStringSubmatchIndex(n.Value, -1)
	if len(matches) > 0 {
		c.texts += len(n.Value)
	}
	for _, match := range matches {
		name := nameOf(n.Value, match)
		if i := c.matrix.dimension(name); i >= 0 {
			c.texts += c.longest[i]
			continue
		}
		line, column := message.Position(n.Value, match[0])
		c.r.problemInside(n, Problem{line, column, c.unknown(name)})
		return // positions and suggestions are expensive
	}
}

// unknown returns a message about a placeholder that names no dimension.
func (c *placeholderCheck) unknown(name string) string {
	var names []string
	for _, d := range c.matrix.Dimensions {
		names = append(names, d.Name)
	}
	switch {
	case name == "":
		return "{{matrix}} names no dimension, and the matrix has named ones; write {{matrix." + names[0] + "}}"
	case names[0] == "":
		return "the matrix has no named dimensions; write {{matrix}}"
	}
	return "the matrix has no dimension " + message.Quote(name) + message.Suggestion(name, names)
}

// longest returns the length of the longest value of each dimension.
func (m *Matrix) longest() []int {
	lengths := make([]int, len(m.Dimensions))
	for i, d := range m.Dimensions {
		for _, v := range d.Values {
			lengths[i] = max(lengths[i], len(v))
		}
	}
	for _, a := range m.Adjustments {
		for i, v := range a.With {
			lengths[i] = max(lengths[i], len(v))
		}
	}
	return lengths
}
