package definition

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// checkVariables records the syntax errors of variables in the document.
func (r *reader) checkVariables(n *yaml.Node) {
	for text := range texts(n) {
		_, err := scanVariables(text.Value)
		r.recordVariableError(text, err)
	}
}

// interpolateVariables replaces the variables in all texts of the document, including keys. It first evaluates
// the document's own env from top to bottom: each variable is available to those below and to the rest of the
// document. Given variables override the document's own, as in the environment of jobs. It reports whether
// there were no errors.
func (r *reader) interpolateVariables(root *yaml.Node, env func(name string) (string, bool)) bool {
	f := interpolator{r: r, env: env, own: map[string]string{}, seen: map[*yaml.Node]bool{}, budget: maxText}
	f.environment(root)
	for text := range texts(root) {
		f.fill(text)
	}
	return !f.failed
}

// texts yields each scalar of a document once.
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

// recordVariableError records an error of scanVariables or interpolate, and reports whether there was one.
func (r *reader) recordVariableError(n *yaml.Node, err error) bool {
	if err == nil {
		return false
	}
	if wrong, ok := errors.AsType[*variableError](err); ok {
		line, column := message.Position(n.Value, wrong.offset)
		r.problemInside(n, Problem{line, column, wrong.message})
		return true
	}
	r.abort(n, "the definition has more than %d bytes of text once its variables are filled in", maxText)
	return true
}

// An interpolator replaces the variables of texts.
type interpolator struct {
	r   *reader
	env func(name string) (string, bool)
	// own holds the variables of the document's env so far.
	own    map[string]string
	seen   map[*yaml.Node]bool
	budget int
	failed bool
}

func (f *interpolator) lookup(name string) (string, bool) {
	if value, ok := f.env(name); ok {
		return value, true
	}
	value, ok := f.own[name]
	return value, ok
}

// environment interpolates the document's own env.
func (f *interpolator) environment(root *yaml.Node) {
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

// fill replaces the variables of a scalar, at most once.
func (f *interpolator) fill(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || !strings.Contains(n.Value, "$") || f.seen[n] || f.r.aborted {
		return
	}
	f.seen[n] = true
	text, err := interpolate(n.Value, f.lookup, &f.budget)
	if f.r.recordVariableError(n, err) {
		f.failed = true
		return
	}
	n.Value = text
}
