package buildapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// texts are values by name. Clients also send numbers, booleans and, for fields with several values, lists: numbers
// and booleans become text, lists one item per line.
type texts map[string]string

// UnmarshalJSON reads an object.
func (t *texts) UnmarshalJSON(b []byte) error {
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(b, &sent); err != nil {
		return err
	}
	read, err := textsOf(sent)
	*t = read
	return err
}

func textsOf(sent map[string]json.RawMessage) (texts, error) {
	read := make(texts, len(sent))
	for name, raw := range sent {
		text, err := textOf(raw)
		if err != nil {
			return nil, fmt.Errorf("%q %w", name, err)
		}
		read[name] = text
	}
	return read, nil
}

// JSONSchema describes the object.
func (texts) JSONSchema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean", "array", "null"}}}
}

func textOf(raw json.RawMessage) (string, error) {
	switch raw = bytes.TrimSpace(raw); raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case 'n':
		return "", nil
	case '{':
		return "", fmt.Errorf("must be text, not an object")
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return "", err
		}
		lines := make([]string, len(items))
		for i, item := range items {
			if item[0] == '[' {
				return "", fmt.Errorf("must be a list of texts, not of lists")
			}
			var err error
			if lines[i], err = textOf(item); err != nil {
				return "", err
			}
		}
		return strings.Join(lines, "\n"), nil
	default: // a number, true or false
		return string(raw), nil
	}
}
