package definition

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// Limits of a definition. They are checked while reading, so that a small source with many aliases costs no
// more than a large one without.
const (
	maxSource   = 1 << 20  // bytes of YAML
	maxDepth    = 100      // nested lists and mappings, aliases expanded
	maxNodes    = 200_000  // keys and values, aliases expanded
	maxText     = 8 << 20  // bytes of keys and values, aliases expanded
	maxJobs     = 4_000    // jobs of a build
	maxProblems = 50       // reported problems, and warnings likewise
	maxFormat   = 1_000    // bytes of a field's format
	maxFormats  = 20_000   // bytes of all formats, which are slow to check
	maxExpanded = 64 << 20 // bytes copied by matrix expansion
	maxPatterns = 200_000  // cost of the regular expressions of all conditions

	// maxDimensions bounds matrices whose dimensions have one value each; others are bounded by maxJobs.
	maxDimensions = 100
)

// shape checks rules that hold everywhere in the document: depth, keys of mappings, aliases inside their own
// anchor, characters that cannot be stored. It visits each node once without expanding aliases, and reports
// whether the document can be expanded at all.
type shape struct {
	r *reader
	// open holds the anchored nodes that the walk is inside of.
	open map[*yaml.Node]bool
	ok   bool
}

func (r *reader) checkShape(root *yaml.Node) bool {
	s := shape{r: r, open: map[*yaml.Node]bool{}, ok: true}
	s.walk(root, 0)
	return s.ok
}

func (s *shape) walk(n *yaml.Node, depth int) {
	switch n.Kind {
	case yaml.AliasNode:
		// Aliases only refer backwards, so every circle has one alias that points to a node around it.
		if s.open[n.Alias] {
			s.r.problem(n, "the alias *%s stands inside its own anchor", n.Value)
			s.ok = false
		}
		return
	case yaml.ScalarNode:
		if strings.IndexByte(n.Value, 0) >= 0 {
			s.r.problem(n, "the text contains the character U+0000, which cannot be stored")
		}
		return
	}
	if depth >= maxDepth {
		s.r.problem(n, "lists and mappings are nested more than %d deep", maxDepth)
		s.ok = false
		return
	}
	if n.Anchor != "" {
		s.open[n] = true
		defer delete(s.open, n)
	}
	if n.Kind == yaml.MappingNode {
		s.checkKeys(n)
	}
	for _, child := range n.Content {
		s.walk(child, depth+1)
	}
}

// checkKeys reports keys that are not plain text and keys that stand twice in a mapping.
func (s *shape) checkKeys(n *yaml.Node) {
	first := make(map[string]int, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		text, ok := keyText(key)
		if !ok {
			s.r.problem(key, "a key must be text, found %s", describe(key))
			continue
		}
		line, twice := first[text]
		switch {
		case twice && isMerge(key):
			s.r.problem(key, `<< stands twice in this mapping; merge several with a list: "<<: [*one, *two]"`)
		case twice:
			s.r.problem(key, "the key %s is already defined on line %d", message.Quote(text), line)
		default:
			first[text] = key.Line
		}
	}
}

// keyText returns a key of a mapping as text, and false when it is a list or mapping.
func keyText(key *yaml.Node) (string, bool) {
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	return key.Value, key.Kind == yaml.ScalarNode
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge"
}
