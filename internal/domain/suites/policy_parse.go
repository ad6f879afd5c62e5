package suites

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A plainValue is what YAML and JSON have in common: a text, a list or a mapping. Numbers and booleans are texts, as
// they are written.
type plainValue struct {
	kind   valueKind
	text   string
	items  []plainValue
	fields []plainField
}

type plainField struct {
	name  string
	value plainValue
}

type valueKind int

const (
	otherValue valueKind = iota // null
	textValue
	listValue
	mapValue
)

// field returns the value of a mapping's key.
func (v plainValue) field(name string) (plainValue, bool) {
	i := slices.IndexFunc(v.fields, func(f plainField) bool { return f.name == name })
	if i < 0 {
		return plainValue{}, false
	}
	return v.fields[i].value, true
}

// texts returns a text, or those of a list that has nothing else.
func (v plainValue) texts() ([]string, bool) {
	switch v.kind {
	case textValue:
		return []string{v.text}, true
	case listValue:
		texts := make([]string, len(v.items))
		for i, item := range v.items {
			if item.kind != textValue {
				return nil, false
			}
			texts[i] = item.text
		}
		return texts, true
	}
	return nil, false
}

// parseYAML returns the value of one YAML document. Only comments, or nothing, is an empty list.
func parseYAML(text string) (plainValue, error) {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(text))
	switch err := decoder.Decode(&doc); {
	case err == io.EOF:
		return plainValue{kind: listValue}, nil
	case err != nil:
		return plainValue{}, fmt.Errorf("is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	case decoder.Decode(&more) != io.EOF:
		return plainValue{}, errors.New("must be one YAML document")
	}
	return fromYAML(doc.Content[0])
}

func fromYAML(n *yaml.Node) (v plainValue, err error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag != "!!null" {
			v = plainValue{kind: textValue, text: n.Value}
		}
	case yaml.SequenceNode:
		v = plainValue{kind: listValue, items: make([]plainValue, len(n.Content))}
		for i, item := range n.Content {
			if v.items[i], err = fromYAML(item); err != nil {
				return v, err
			}
		}
	case yaml.MappingNode:
		v.kind = mapValue
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if _, twice := v.field(key.Value); twice {
				return v, fmt.Errorf("is not valid: the key %.100q is given twice, at line %d", key.Value, key.Line)
			}
			value, err := fromYAML(n.Content[i+1])
			if err != nil {
				return v, err
			}
			v.fields = append(v.fields, plainField{key.Value, value})
		}
	default:
		return v, fmt.Errorf("is not valid: aliases are not possible, as at line %d", n.Line)
	}
	return v, nil
}

// parseJSON returns the value of a JSON text.
func parseJSON(text []byte) (plainValue, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return plainValue{}, fmt.Errorf("is not valid JSON: %s", err)
	}
	return fromJSON(v), nil
}

func fromJSON(v any) plainValue {
	switch v := v.(type) {
	case string:
		return plainValue{kind: textValue, text: v}
	case bool, json.Number:
		return plainValue{kind: textValue, text: fmt.Sprint(v)}
	case []any:
		list := plainValue{kind: listValue, items: make([]plainValue, len(v))}
		for i, item := range v {
			list.items[i] = fromJSON(item)
		}
		return list
	case map[string]any:
		mapping := plainValue{kind: mapValue}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			mapping.fields = append(mapping.fields, plainField{name, fromJSON(v[name])})
		}
		return mapping
	}
	return plainValue{}
}
