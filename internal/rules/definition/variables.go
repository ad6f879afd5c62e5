package definition

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// checkVariables notes what is wrong with how variables are written anywhere in the document.
func (r *reader) checkVariables(n *yaml.Node) {
	for text := range texts(n) {
		_, err := scanVariables(text.Value)
		r.noteVariable(text, err)
	}
}

// fillVariables replaces the variables in all texts of the document, keys included. First come those
// of its own env, in the order written: each is known to the ones below and to the rest. A variable that
// is given wins over the document's own, as it does in the environment of jobs. It reports whether
// nothing was wrong.
func (r *reader) fillVariables(root *yaml.Node, env func(name string) (string, bool)) bool {
	f := filler{r: r, env: env, own: map[string]string{}, seen: map[*yaml.Node]bool{}, budget: maxText}
	f.environment(root)
	for text := range texts(root) {
		f.fill(text)
	}
	return !f.wrong
}

// texts yields the scalars of a document, once each.
func texts(n *yaml.Node) func(yield func(*yaml.Node) bool) {
	return func(yield func(*yaml.Node) bool) { eachText(n, yield) }
}

func eachText(n *yaml.Node, yield func(*yaml.Node) bool) bool {
	if n.Kind == yaml.ScalarNode {
		return yield(n)
	}
	for _, child := range n.Content {
		if !eachText(child, yield) {
			return false
		}
	}
	return true
}

// noteVariable notes an error of scanning or filling in a text, and reports whether there was one.
func (r *reader) noteVariable(n *yaml.Node, err error) bool {
	if err == nil {
		return false
	}
	if wrong, ok := errors.AsType[*variableError](err); ok {
		line, column := message.Position(n.Value, wrong.offset)
		r.problemInside(n, Problem{line, column, wrong.message})
		return true
	}
	r.giveUp(n, "the definition has more than %d bytes of text once its variables are filled in", maxText)
	return true
}

// A filler replaces the variables of texts.
type filler struct {
	r   *reader
	env func(name string) (string, bool)
	// own are the variables of the document's env so far.
	own    map[string]string
	seen   map[*yaml.Node]bool
	budget int
	wrong  bool
}

func (f *filler) lookup(name string) (string, bool) {
	if value, ok := f.env(name); ok {
		return value, true
	}
	value, ok := f.own[name]
	return value, ok
}

// environment fills in the document's own env.
func (f *filler) environment(root *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return
	}
	for _, e := range f.r.entries(root) {
		env := f.r.follow(e.value)
		if e.name != "env" || env.Kind != yaml.MappingNode {
			continue
		}
		for _, variable := range f.r.entries(env) {
			key, value := f.r.follow(variable.key), f.r.follow(variable.value)
			f.fill(key)
			f.fill(value)
			if value.Kind == yaml.ScalarNode {
				f.own[key.Value] = value.Value
			}
		}
	}
}

// fill replaces the variables of a scalar, once.
func (f *filler) fill(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || !strings.Contains(n.Value, "$") || f.seen[n] || f.r.spent {
		return
	}
	f.seen[n] = true
	text, err := interpolate(n.Value, f.lookup, &f.budget)
	if f.r.noteVariable(n, err) {
		f.wrong = true
		return
	}
	n.Value = text
}
