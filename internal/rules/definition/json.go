package definition

import (
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// plain returns the value in the shapes that JSON has: nil, bool, int64, uint64, float64, string,
// []any, map[string]any. Dates stay the text they were written as.
func (v value) plain() any {
	if !v.set() {
		return nil
	}
	return v.r.plain(v.node, v.name, 0)
}

// plain converts a node that was followed already.
func (r *reader) plain(n *yaml.Node, name string, depth int) any {
	// The document's own depth was checked before; aliases can stack one part upon another.
	if depth >= maxDepth {
		r.giveUp(n, "lists and mappings are nested more than %d deep once aliases are expanded", maxDepth)
	}
	if r.spent {
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, child := range n.Content {
			list = append(list, r.plain(r.follow(child), name, depth+1))
			if r.spent {
				return nil
			}
		}
		return list
	case yaml.MappingNode:
		entries := r.entries(n)
		m := make(map[string]any, len(entries))
		for _, e := range entries {
			m[e.name] = r.plain(r.follow(e.value), name, depth+1)
			if r.spent {
				return nil
			}
		}
		return m
	}
	scalar, ok := plainScalar(n)
	if !ok {
		r.problem(n, "%s holds %s, which is not a number that JSON can write", name, message.Quote(n.Value))
	}
	return scalar
}

// plainScalar returns what a scalar means by its tag; false when the text does not fit the tag.
func plainScalar(n *yaml.Node) (any, bool) {
	digits := strings.ReplaceAll(n.Value, "_", "")
	switch n.ShortTag() {
	case "!!null":
		return nil, true
	case "!!bool":
		return truth(n)
	case "!!int":
		if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
			return i, true
		}
		u, err := strconv.ParseUint(digits, 0, 64)
		return u, err == nil
	case "!!float":
		f, err := strconv.ParseFloat(digits, 64)
		return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
	}
	return n.Value, true
}
