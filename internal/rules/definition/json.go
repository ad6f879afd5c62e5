package definition

import (
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// plain returns the value with the types of JSON: nil, bool, int64, uint64, float64, string, []any,
// map[string]any. Dates remain text.
func (v value) plain() any {
	if !v.set() {
		return nil
	}
	return v.r.plain(v.node, v.name, 0)
}

// plain converts a node whose alias is already resolved.
func (r *reader) plain(n *yaml.Node, name string, depth int) any {
	// The depth of the document itself was checked before, but aliases can nest parts more deeply.
	if depth >= maxDepth {
		r.abort(n, "lists and mappings are nested more than %d deep once aliases are expanded", maxDepth)
	}
	if r.aborted {
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, child := range n.Content {
			list = append(list, r.plain(r.follow(child), name, depth+1))
			if r.aborted {
				return nil
			}
		}
		return list
	case yaml.MappingNode:
		entries := r.entries(n)
		m := make(map[string]any, len(entries))
		for _, e := range entries {
			m[e.name] = r.plain(r.follow(e.value), name, depth+1)
			if r.aborted {
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

// plainScalar returns the value of a scalar by its tag, and false if the text does not match the tag.
func plainScalar(n *yaml.Node) (any, bool) {
	digits := strings.ReplaceAll(n.Value, "_", "")
	switch n.ShortTag() {
	case "!!null":
		return nil, true
	case "!!bool":
		return parseBool(n)
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
