package stacks

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"stackyard/internal/platform/core"
)

// The limits of a stack's metadata.
const (
	maxMetadata      = 100
	maxMetadataKey   = 64  // characters
	maxMetadataValue = 256 // characters
)

// sentMetadata is the metadata of a registration before validation.
type sentMetadata struct{ raw json.RawMessage }

// UnmarshalJSON keeps the text for read, whose errors name the invalid key.
func (m *sentMetadata) UnmarshalJSON(b []byte) error {
	m.raw = bytes.Clone(b)
	return nil
}

// JSONSchema describes the metadata.
func (sentMetadata) JSONSchema() map[string]any {
	return map[string]any{
		"type": "object", "maxProperties": maxMetadata,
		"additionalProperties": map[string]any{"type": "string", "maxLength": maxMetadataValue},
	}
}

// read returns the metadata, which must be an object of strings. Errors are Unprocessable.
func (m sentMetadata) read() (map[string]string, error) {
	if len(m.raw) == 0 || string(m.raw) == "null" {
		return nil, core.Errorf(core.Unprocessable, "metadata is required; it may be empty")
	}
	var sent map[string]json.RawMessage
	if json.Unmarshal(m.raw, &sent) != nil {
		return nil, core.Errorf(core.Unprocessable, "metadata must be an object")
	}
	if len(sent) > maxMetadata {
		return nil, core.Errorf(core.Unprocessable, "metadata must have at most %d keys, not %d", maxMetadata, len(sent))
	}
	metadata := make(map[string]string, len(sent))
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		if utf8.RuneCountInString(key) > maxMetadataKey {
			return nil, core.Errorf(core.Unprocessable, "metadata has a key of more than %d characters", maxMetadataKey)
		}
		var value *string
		if json.Unmarshal(sent[key], &value) != nil || value == nil {
			return nil, core.Errorf(core.Unprocessable, "metadata.%s must be a string", key)
		}
		if utf8.RuneCountInString(*value) > maxMetadataValue {
			return nil, core.Errorf(core.Unprocessable, "metadata.%s has more than %d characters", key, maxMetadataValue)
		}
		metadata[key] = *value
	}
	return metadata, nil
}
