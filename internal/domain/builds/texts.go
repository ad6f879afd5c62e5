package builds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Texts are texts by name. Clients send numbers, booleans and, for fields with several answers, lists
// too: those become the text they were written as, lists one item to a line.
type Texts map[string]string

// UnmarshalJSON reads an object.
func (t *Texts) UnmarshalJSON(b []byte) error {
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(b, &sent); err != nil {
		return err
	}
	texts, err := textsOf(sent)
	*t = texts
	return err
}

func textsOf(sent map[string]json.RawMessage) (Texts, error) {
	texts := make(Texts, len(sent))
	for name, raw := range sent {
		text, err := textOf(raw)
		if err != nil {
			return nil, fmt.Errorf("%q %w", name, err)
		}
		texts[name] = text
	}
	return texts, nil
}

// JSONSchema describes the object.
func (Texts) JSONSchema() map[string]any {
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
		texts := make([]string, len(items))
		for i, item := range items {
			if item[0] == '[' {
				return "", fmt.Errorf("must be a list of texts, not of lists")
			}
			var err error
			if texts[i], err = textOf(item); err != nil {
				return "", err
			}
		}
		return strings.Join(texts, "\n"), nil
	default: // a number, true or false
		return string(raw), nil
	}
}
