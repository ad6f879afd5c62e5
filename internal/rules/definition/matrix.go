package definition

import (
	"regexp"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// Matrix makes a job for each combination of its dimensions' values.
type Matrix struct {
	// Dimensions are in the order written. A matrix written as a list has one, without a name.
	Dimensions  []Dimension
	Adjustments []Adjustment
}

// A Dimension is a named list of values, at least one.
type Dimension struct {
	Name   string
	Values []string
}

// An Adjustment changes a combination, or adds one that the product of the dimensions does not include.
type Adjustment struct {
	// With has one value per dimension, in order.
	With []string
	Skip Skip
	// SoftFail is nil if the step's applies.
	SoftFail *SoftFail
}

// dimensionName matches valid dimension names, as used in placeholders like {{matrix.name}}.
var dimensionName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// matrix reads a list of values, or a mapping with setup and adjustments.
func (v value) matrix() *Matrix {
	const expected = "a list of values, or a mapping with setup and adjustments"
	if !v.set() {
		return nil
	}
	if v.node.Kind != yaml.MappingNode {
		return &Matrix{Dimensions: []Dimension{v.dimension("", expected)}}
	}
	m := v.mapping(expected)
	setup := m.get("setup")
	if !setup.set() {
		v.r.problem(v.node, "%s has no setup, which lists the values of each dimension", v.name)
		return nil
	}
	matrix := &Matrix{Dimensions: setup.dimensions()}
	if matrix.Dimensions == nil {
		return nil
	}
	for _, item := range m.get("adjustments").list("a list of adjustments") {
		if a, ok := item.adjustment(matrix.Dimensions); ok {
			matrix.Adjustments = append(matrix.Adjustments, a)
		}
	}
	m.warnUnknown()
	return matrix
}

// dimensions reads setup: a list of values, or a mapping of dimension names to such lists.
func (v value) dimensions() []Dimension {
	const expected = "a list of values, or a mapping of dimensions to lists of values"
	if v.node.Kind != yaml.MappingNode {
		return []Dimension{v.dimension("", expected)}
	}
	entries := v.mapping(expected).entries
	if len(entries) == 0 || len(entries) > maxDimensions {
		v.r.problem(v.node, "%s must have 1 to %d dimensions, found %d", v.name, maxDimensions, len(entries))
		return nil
	}
	var dimensions []Dimension
	for _, e := range entries {
		if !dimensionName.MatchString(e.name) && !v.r.pending(e.name) {
			v.r.problem(e.key, "the name of a dimension must consist of letters, digits and underscores, found %s", message.Quote(e.name))
		}
		list := v.r.value(e.value, v.name+"."+message.Quote(e.name))
		dimensions = append(dimensions, list.dimension(e.name, "a list of values"))
	}
	return dimensions
}

// dimension reads the values of one dimension.
func (v value) dimension(name, expected string) Dimension {
	d := Dimension{Name: name}
	if v.present() && !v.set() {
		v.must(expected)
	}
	if v.is(yaml.SequenceNode) && len(v.node.Content) == 0 {
		v.r.problem(v.node, "%s must have at least one value", v.name)
	}
	for _, item := range v.list(expected) {
		d.Values = append(d.Values, item.element())
	}
	return d
}

// element reads one value of a dimension.
func (v value) element() string {
	if v.present() && !v.is(yaml.ScalarNode) {
		v.name = "a value of " + v.name
		v.must("text, a number, true or false")
		return ""
	}
	return v.text()
}

// adjustment reads one adjustment of a matrix with the given dimensions.
func (v value) adjustment(dimensions []Dimension) (Adjustment, bool) {
	m := v.itemMapping("a mapping with the key with")
	if m == nil {
		return Adjustment{}, false
	}
	with := m.get("with")
	if !with.set() {
		v.r.problem(v.node, "an adjustment has no key with, which names the combination")
		return Adjustment{}, false
	}
	a := Adjustment{Skip: m.get("skip").skip()}
	if soft := m.get("soft_fail"); soft.set() {
		s := soft.softFail()
		a.SoftFail = &s
	}
	if len(dimensions) == 1 && dimensions[0].Name == "" {
		a.With = with.singleValue()
	} else {
		a.With = with.combination(dimensions)
	}
	m.warnUnknown()
	return a, true
}

// singleValue reads the value of a matrix without named dimensions, alone or in a list.
func (v value) singleValue() []string {
	if !v.is(yaml.SequenceNode) {
		return []string{v.element()}
	}
	items := v.list("")
	if len(items) != 1 {
		if !v.r.aborted {
			v.r.problem(v.node, "%s must name one value, found %d", v.name, len(items))
		}
		return []string{""}
	}
	return []string{items[0].element()}
}

// combination reads one value per dimension.
func (v value) combination(dimensions []Dimension) []string {
	m := v.mapping("a mapping of every dimension to a value")
	if m == nil {
		return nil
	}
	with := make([]string, len(dimensions))
	for i, d := range dimensions {
		item := m.get(d.Name)
		if !item.present() {
			v.r.problem(v.node, "%s must name every dimension; %s is missing", v.name, message.Quote(d.Name))
		}
		with[i] = item.element()
	}
	for _, e := range m.unknown() {
		if v.r.problems.full() {
			break // suggestions are expensive
		}
		v.r.problem(e.key, "%s names %s, which is not a dimension of the matrix%s", v.name, message.Quote(e.name), message.Suggestion(e.name, m.readKeys))
	}
	return with
}
