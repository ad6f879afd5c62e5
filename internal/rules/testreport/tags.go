package testreport

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stackyard/internal/platform/core"
)

// A Tag is a value under a key that an upload gives to its executions, such as the operating system.
type Tag struct{ Key, Value string }

// The bounds of tags. What exceeds them is cut or left out.
const (
	maxTags     = 20
	maxTagKey   = 64  // bytes
	maxTagValue = 255 // bytes
)

// Tags are sorted by key.
type Tags []Tag

// set adds a tag, or replaces the value of one.
func (t *Tags) set(key, value string) {
	key, value = core.CutBytes(plain(key), maxTagKey), core.CutBytes(plain(value), maxTagValue)
	at, known := slices.BinarySearchFunc(*t, key, func(tag Tag, key string) int { return strings.Compare(tag.Key, key) })
	switch {
	case key == "":
	case known:
		(*t)[at].Value = value
	case len(*t) < maxTags:
		*t = slices.Insert(*t, at, Tag{key, value})
	}
}

// With returns the tags together with those of an execution, which take precedence.
func (t Tags) With(own Tags) Tags {
	if len(own) == 0 {
		return t
	}
	all := slices.Clone(own)
	for _, tag := range t {
		if !slices.ContainsFunc(own, func(o Tag) bool { return o.Key == tag.Key }) {
			all.set(tag.Key, tag.Value)
		}
	}
	return all
}

// UnmarshalJSON reads an object of texts, numbers and booleans. Anything else is left out.
func (t *Tags) UnmarshalJSON(b []byte) error {
	*t = nil
	if jsontext.Value(b).Kind() != '{' {
		return nil
	}
	var values map[string]any
	if err := json.Unmarshal(b, &values, options); err != nil {
		return err
	}
	for key, value := range values {
		if text, ok := scalar(value); ok && value != nil {
			t.set(key, text)
		}
		if len(*t) == maxTags {
			break
		}
	}
	return nil
}
