package definition

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// placeholder matches {{matrix}} and {{matrix.dimension}}.
var placeholder = regexp.MustCompile(`\{\{\s*matrix(?:\.([^}\s]*))?\s*\}\}`)

// A template is a text with placeholders: between its parts are the values of dimensions.
type template struct {
	parts      []string // one more than dimensions
	dimensions []int
}

// template parses the placeholders of a text. Placeholders of unknown dimensions remain text.
func (m *Matrix) template(text string) template {
	var t template
	rest := 0
	for _, match := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		i := m.dimension(nameOf(text, match))
		if i < 0 {
			continue
		}
		t.parts = append(t.parts, text[rest:match[0]])
		t.dimensions = append(t.dimensions, i)
		rest = match[1]
	}
	t.parts = append(t.parts, text[rest:])
	return t
}

// nameOf returns the dimension name of a placeholder match, or "" for {{matrix}}.
func nameOf(text string, match []int) string {
	if match[2] < 0 {
		return ""
	}
	return text[match[2]:match[3]]
}

// dimension returns the index of a dimension, or -1.
func (m *Matrix) dimension(name string) int {
	return slices.IndexFunc(m.Dimensions, func(d Dimension) bool { return d.Name == name })
}

// constant reports whether the text is the same for all combinations.
func (t template) constant() bool { return len(t.dimensions) == 0 }

// text returns the text for the values of one combination.
func (t template) text(values []string) string {
	if t.constant() {
		return t.parts[0]
	}
	var b strings.Builder
	b.WriteString(t.parts[0])
	for i, d := range t.dimensions {
		b.WriteString(values[d])
		b.WriteString(t.parts[i+1])
	}
	return b.String()
}

// A templateList and a templateMap are a list and a mapping that contain placeholders. The entries of a mapping
// are sorted by key, so that the result is stable if values make two keys equal.
type (
	templateList []any
	templateMap  []templateEntry

	templateEntry struct {
		key   template
		value any
	}
)

// templates parses the placeholders in a JSON value. It returns parts without placeholders unchanged, so that
// all jobs share them.
func (m *Matrix) templates(v any) any {
	switch v := v.(type) {
	case string:
		if t := m.template(v); !t.constant() {
			return t
		}
	case []any:
		list := make(templateList, len(v))
		varies := false
		for i, item := range v {
			list[i] = m.templates(item)
			varies = varies || isTemplate(list[i])
		}
		if varies {
			return list
		}
	case map[string]any:
		entries := make(templateMap, 0, len(v))
		varies := false
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e := templateEntry{m.template(key), m.templates(v[key])}
			entries = append(entries, e)
			varies = varies || !e.key.constant() || isTemplate(e.value)
		}
		if varies {
			return entries
		}
	}
	return v
}

func isTemplate(v any) bool {
	switch v.(type) {
	case template, templateList, templateMap:
		return true
	}
	return false
}

// fill returns the JSON value of templates for one combination.
func fill(v any, values []string) any {
	switch v := v.(type) {
	case template:
		return v.text(values)
	case templateList:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = fill(item, values)
		}
		return list
	case templateMap:
		m := make(map[string]any, len(v))
		for _, e := range v {
			m[e.key.text(values)] = fill(e.value, values)
		}
		return m
	}
	return v
}
