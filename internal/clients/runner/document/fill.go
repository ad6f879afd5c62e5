package document

import (
	"fmt"
	"strings"

	"github.com/buildkite/interpolate"
	"go.yaml.in/yaml/v3"
)

// maxNesting limits nested defaults of variables: the time of the library doubles with each escape.
const maxNesting = 12

// fill interpolates the variables of all texts of a document, including keys. It first evaluates the document's
// own env from top to bottom: each variable is available to those below and to the rest. Variables of the job
// override the document's own, as in the uploaded jobs.
func fill(top *yaml.Node, env Lookup) error {
	f := filler{env: env, own: map[string]string{}, seen: map[*yaml.Node]bool{}}
	if err := f.environment(follow(top)); err != nil {
		return err
	}
	return f.all(top)
}

// A filler interpolates texts and provides the environment for that.
type filler struct {
	env  Lookup
	own  map[string]string
	seen map[*yaml.Node]bool
}

// Get returns the value of a variable.
func (f *filler) Get(name string) (string, bool) {
	if value, ok := f.env(name); ok {
		return value, true
	}
	value, ok := f.own[name]
	return value, ok
}

func (f *filler) environment(top *yaml.Node) error {
	if top.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		env := follow(top.Content[i+1])
		if follow(top.Content[i]).Value != "env" || env.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(env.Content); i += 2 {
			key, value := follow(env.Content[i]), follow(env.Content[i+1])
			if err := f.text(key); err != nil {
				return err
			}
			if err := f.text(value); err != nil {
				return err
			}
			if value.Kind == yaml.ScalarNode {
				f.own[key.Value] = value.Value
			}
		}
	}
	return nil
}

func (f *filler) all(n *yaml.Node) error {
	if err := f.text(n); err != nil {
		return err
	}
	for _, child := range n.Content {
		if err := f.all(child); err != nil {
			return err
		}
	}
	return nil
}

// text interpolates a text, at most once.
func (f *filler) text(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || f.seen[n] || !strings.ContainsAny(n.Value, `$\`) {
		return nil
	}
	f.seen[n] = true
	text, err := expand(f, n.Value)
	if err != nil {
		return at(n, "%v", err)
	}
	n.Value = text
	return nil
}

// expand interpolates the variables of a text.
func expand(env interpolate.Env, text string) (expanded string, err error) {
	if nesting(text) > maxNesting {
		return "", fmt.Errorf("variables are nested more than %d deep", maxNesting)
	}
	// The library panics for some lengths.
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the variables in %q cannot be replaced", text)
		}
	}()
	return interpolate.Interpolate(env, text)
}

// nesting returns the nesting depth of braces.
func nesting(text string) int {
	depth, most := 0, 0
	for i := range len(text) {
		switch {
		case text[i] == '{' && i > 0 && text[i-1] == '$':
			depth++
			most = max(most, depth)
		case text[i] == '}' && depth > 0:
			depth--
		}
	}
	return most
}
