package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"stackyard/internal/platform/core"
)

// document collects the schemas of Go types as components.
type document struct {
	components map[string]any
	types      map[string]reflect.Type // the type of each component
}

// enumerated is a string type that lists its values.
type enumerated interface{ Values() []string }

// schemaTyped is a type that is encoded as another one.
type schemaTyped interface{ schemaType() reflect.Type }

func (p Paged[T]) schemaType() reflect.Type { return reflect.TypeFor[[]T]() }

// Described is a type with its own JSON schema.
type Described interface{ JSONSchema() map[string]any }

// Alternatives is a type that is encoded as one of several others; it returns a zero value of each.
type Alternatives interface{ Alternatives() []any }

// schema returns the JSON schema of a type as encoding/json writes it. Structs become components that are
// referred to by name.
func (d *document) schema(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		return nullable(d.schema(t.Elem()))
	}
	zero := reflect.Zero(t).Interface()
	if s, ok := zero.(Described); ok {
		return s.JSONSchema()
	}
	if s, ok := zero.(schemaTyped); ok {
		return d.schema(s.schemaType())
	}
	if s, ok := zero.(Alternatives); ok {
		var schemas []any
		for _, one := range s.Alternatives() {
			schemas = append(schemas, d.schema(reflect.TypeOf(one)))
		}
		return map[string]any{"anyOf": schemas}
	}
	switch t {
	case reflect.TypeFor[core.Time]():
		return map[string]any{"type": []string{"string", "null"}, "format": "date-time"}
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.String:
		s := map[string]any{"type": "string"}
		if e, ok := zero.(enumerated); ok {
			s["enum"] = e.Values()
		}
		return s
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Struct:
		return map[string]any{"$ref": "#/components/schemas/" + d.component(t)}
	default:
		panic(fmt.Sprintf("route: no schema for %s", t))
	}
}

func nullable(s map[string]any) map[string]any {
	if kind, ok := s["type"].(string); ok && s["enum"] == nil {
		s["type"] = []string{kind, "null"}
		return s
	}
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
}

// component adds a struct as a component and returns its name. It panics when two types have the same name.
func (d *document) component(t reflect.Type) string {
	name := componentName(t)
	if known, ok := d.types[name]; ok {
		if known != t {
			panic(fmt.Sprintf("route: %s and %s would both be the schema %s", known, t, name))
		}
		return name
	}
	d.types[name] = t
	var properties ordered
	required := []string{}
	for f := range fields(t) {
		s := d.schema(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties = append(properties, property{f.name, s})
		_, optional := reflect.Zero(f.Type).Interface().(interface{ optional() })
		if !f.omitempty && !optional {
			required = append(required, f.name)
		}
	}
	component := map[string]any{"type": "object", "properties": properties}
	if isView(t) {
		component["required"] = required
		component["additionalProperties"] = false
	}
	d.components[name] = component
	return name
}

func (o Opt[T]) optional() {}

// isView reports whether a struct is sent to clients: by convention its name ends in View. Only views have
// required properties.
func isView(t reflect.Type) bool {
	return strings.HasSuffix(t.Name(), "View") || strings.HasPrefix(t.Name(), "Items[") || t == reflect.TypeFor[Links]() || t == reflect.TypeFor[core.FieldError]()
}

// componentName returns the name of a type for readers: pipelineView is Pipeline, Items[…jobView] is JobItems.
func componentName(t reflect.Type) string {
	name := t.Name()
	if generic, argument, ok := strings.Cut(name, "["); ok {
		argument = strings.TrimSuffix(argument, "]")
		if i := strings.LastIndexAny(argument, "./"); i >= 0 {
			argument = argument[i+1:]
		}
		name = strings.TrimSuffix(argument, "View") + generic
	}
	name = strings.TrimSuffix(name, "View")
	r := []rune(name)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// ordered is a JSON object whose properties are in the order of the struct's fields.
type ordered []property

type property struct {
	name   string
	schema map[string]any
}

// MarshalJSON writes the object.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(p.name)
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(p.schema)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(schema)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
