package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"stackyard/internal/platform/core"
)

// Hidden is shown instead of a secret.
const Hidden = "[hidden]"

// A Field is a named value of a subject.
type Field struct {
	Name  string
	Value any // encoded as JSON; nil: none
	// Secret values are compared and never stored.
	Secret bool
}

// Fields are the fields of a subject, in the order in which they are shown.
type Fields []Field

// A Change is one field before and after.
type Change struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before" doc:"null: it had no value. Secrets are [hidden]."`
	After  json.RawMessage `json:"after"`
}

// diff returns the fields that differ, within the bounds of a record.
func diff(before, after Fields) []Change {
	changes := []Change{}
	old := make(map[string]Field, len(before))
	for _, f := range before {
		old[f.Name] = f
	}
	add := func(name string, b, a Field) {
		if same(b.Value, a.Value) {
			return
		}
		hide := b.Secret || a.Secret
		changes = append(changes, Change{Field: name, Before: shown(b.Value, hide), After: shown(a.Value, hide)})
	}
	for _, f := range after {
		add(f.Name, old[f.Name], f)
		delete(old, f.Name)
	}
	for _, f := range before {
		if _, gone := old[f.Name]; gone {
			add(f.Name, f, Field{})
		}
	}
	return bounded(changes)
}

// same reports whether two values are equal. Missing and empty ones are.
func same(a, b any) bool { return empty(a) && empty(b) || reflect.DeepEqual(a, b) }

// empty reports whether a value is nil, or an empty text or list.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// shown returns a value as the record has it.
func shown(v any, hide bool) json.RawMessage {
	switch {
	case empty(v):
		return json.RawMessage("null")
	case hide:
		v = Hidden
	}
	if text, ok := v.(string); ok {
		return quote(text)
	}
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return quote(fmt.Sprint(v))
	}
	if encoded.Len() > maxValue {
		return quote(encoded.String())
	}
	return bytes.TrimSpace(bytes.ReplaceAll(encoded.Bytes(), []byte(`\u0000`), []byte(`\ufffd`)))
}

// quote returns a text as JSON, cut to the bound of a value.
func quote(text string) json.RawMessage {
	size := len(text)
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if cut := core.CutBytes(text, maxValue); len(cut) < len(text) {
		text = fmt.Sprintf("%s… (%d bytes in all)", cut, size)
	}
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // texts always marshal
	}
	return encoded
}

// bounded replaces the values of the last changes when all of them together are too large.
func bounded(changes []Change) []Change {
	size := 0
	for i := range changes {
		c := &changes[i]
		size += len(c.Field) + len(c.Before) + len(c.After) + 32
		if size > maxChanges {
			return append(changes[:i], Change{Field: fmt.Sprintf("%d more fields", len(changes)-i), Before: json.RawMessage("null"), After: json.RawMessage("null")})
		}
	}
	return changes
}
