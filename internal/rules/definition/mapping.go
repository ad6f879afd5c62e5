package definition

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// A mapping is a YAML mapping with its merge keys resolved. It records which keys were read: the others are
// unknown, and the read ones are candidates for spelling suggestions.
type mapping struct {
	r        *reader
	node     *yaml.Node
	name     string // what messages put before the names of its keys, or ""
	entries  []entry
	readKeys []string
}

type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

// mapping returns the value as a mapping, or nil when it is absent or something else.
func (v value) mapping(expected string) *mapping {
	if !v.set() {
		return nil
	}
	if v.node.Kind != yaml.MappingNode {
		v.must(expected)
		return nil
	}
	return &mapping{r: v.r, node: v.node, name: v.name, entries: v.r.entries(v.node)}
}

// itemMapping is mapping for a list item, where null is an error.
func (v value) itemMapping(expected string) *mapping {
	if v.present() && !v.set() {
		v.must(expected)
	}
	return v.mapping(expected)
}

// entries lists the keys of a mapping in source order, merged ones at the position of their merge key. Own keys
// override merged ones, earlier merges later ones.
func (r *reader) entries(n *yaml.Node) []entry {
	merges := false
	own := make([]entry, 0, len(n.Content)/2)
	for i := 0; i < len(n.Content) && !r.aborted; i += 2 {
		key := n.Content[i]
		merges = merges || isMerge(key)
		if name, ok := keyText(r.follow(key)); ok {
			own = append(own, entry{name, key, n.Content[i+1]})
		}
	}
	if !merges {
		return own
	}
	taken := map[string]bool{}
	for _, e := range own {
		taken[e.name] = true
	}
	var all []entry
	for _, e := range own {
		if !isMerge(e.key) {
			all = append(all, e)
			continue
		}
		merged := r.merged(e.value)
		r.spend(len(merged), e.key)
		if r.aborted {
			return nil
		}
		for _, m := range merged {
			if !taken[m.name] {
				taken[m.name] = true
				all = append(all, m)
			}
		}
	}
	return all
}

// merged lists the entries of a merge key's value: of a mapping, or of a list of mappings.
func (r *reader) merged(n *yaml.Node) []entry {
	n = r.follow(n)
	if r.aborted {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return r.entries(n)
	case yaml.SequenceNode:
		var all []entry
		for _, child := range n.Content {
			part := r.follow(child)
			if r.aborted {
				return nil
			}
			if part.Kind != yaml.MappingNode {
				r.problem(child, "<< merges mappings, found %s", describe(part))
				continue
			}
			all = append(all, r.entries(part)...)
		}
		return all
	}
	r.problem(n, "<< merges a mapping or a list of mappings, found %s", describe(n))
	return nil
}

// qualified returns the name of a key in messages.
func (m *mapping) qualified(name string) string {
	if m.name == "" {
		return name
	}
	return m.name + "." + name
}

// get returns the value of an attribute that has several names. Using two of them is a problem.
func (m *mapping) get(names ...string) value {
	found := value{r: m.r, name: m.qualified(names[0])}
	for _, name := range names {
		m.readKeys = append(m.readKeys, name)
		i := slices.IndexFunc(m.entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			continue
		}
		e := m.entries[i]
		if found.node != nil {
			m.r.problem(e.key, "%s and %s mean the same; keep one of them", found.name, m.qualified(name))
			continue
		}
		found = m.r.value(e.value, m.qualified(name))
	}
	return found
}

// key returns the node of an attribute's key, or the mapping itself.
func (m *mapping) key(name string) *yaml.Node {
	for _, e := range m.entries {
		if e.name == name {
			return e.key
		}
	}
	return m.node
}

// unknown returns the entries that were never read.
func (m *mapping) unknown() []entry {
	return slices.DeleteFunc(slices.Clone(m.entries), func(e entry) bool { return slices.Contains(m.readKeys, e.name) })
}

// warnUnknown warns about the entries that were never read.
func (m *mapping) warnUnknown() {
	for _, e := range m.unknown() {
		if m.r.warnings.full() {
			return // suggestions are expensive
		}
		m.r.warn(e.key, "%s has no key %s; it is ignored%s", m.name, message.Quote(e.name), message.Suggestion(e.name, m.readKeys))
	}
}
