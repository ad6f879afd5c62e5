package orgfile

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/definition"
)

// maxNodes limits how far aliases can expand a file.
const maxNodes = 1_000_000

// decoder fills structs from YAML and reports all errors by line. The decoder of the library stops at the first
// unknown key and loses the lines of values. Errors in values are found later, so a struct with a field Line
// gets its line.
type decoder struct {
	complaints *core.Complaints
	nodes      int
	open       []*yaml.Node // aliases being followed
	in         int          // line of the mapping being decoded
	incomplete map[int]bool // lines of mappings with a value that could not be decoded
}

// decode parses one YAML document into v, a pointer to a struct. It returns the lines of mappings with a value
// that could not be decoded and is therefore missing in the struct.
func decode(source []byte, v any, complaints *core.Complaints) (incomplete map[int]bool) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		problem := definition.SyntaxProblem(source, err)
		complaints.Add(problem.Line, "%s", problem.Message)
		return nil
	}
	if len(doc.Content) == 0 {
		complaints.Add(1, "the file is empty")
		return nil
	}
	d := decoder{complaints: complaints, incomplete: make(map[int]bool)}
	d.value(doc.Content[0], reflect.ValueOf(v).Elem())
	return d.incomplete
}

func (d *decoder) value(n *yaml.Node, v reflect.Value) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.complaints.Add(n.Line, "the file is too large")
		}
		return
	}
	if n.Kind == yaml.AliasNode {
		if slices.Contains(d.open, n.Alias) {
			d.complaints.Add(n.Line, "the alias *%s contains itself", n.Value)
			return
		}
		d.open = append(d.open, n.Alias)
		d.value(n.Alias, v)
		d.open = d.open[:len(d.open)-1]
		return
	}
	if n.Tag == "!!null" {
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem())
	case v.Type() == reflect.TypeFor[time.Time]():
		d.time(n, v)
	case v.Kind() == reflect.Struct:
		d.mapping(n, v)
	case v.Kind() == reflect.Slice:
		d.sequence(n, v)
	case v.Kind() == reflect.Map:
		d.dictionary(n, v)
	default:
		d.scalar(n, v)
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, "a mapping")
		return
	}
	defer func(outer int) { d.in = outer }(d.in)
	d.in = n.Line
	if line := v.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	known := make(map[string]reflect.Value)
	collect(v, known)
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field, ok := known[key.Value]
		switch {
		case !ok:
			d.complaints.Add(key.Line, "unknown key %q; known here are %s", key.Value, names(known))
		case seen[key.Value]:
			d.complaints.Add(key.Line, "the key %q is given twice", key.Value)
		default:
			d.value(n.Content[i+1], field)
		}
		seen[key.Value] = true
	}
}

// collect lists the fields of a struct, including those of embedded structs, by their YAML names.
func collect(v reflect.Value, known map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			if inner := v.Field(i).FieldByName("Line"); inner.IsValid() && v.FieldByName("Line").IsValid() {
				inner.Set(v.FieldByName("Line"))
			}
			collect(v.Field(i), known)
		case name != "" && name != "-":
			known[name] = v.Field(i)
		}
	}
}

func names(known map[string]reflect.Value) string {
	list := make([]string, 0, len(known))
	for name := range known {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, "a list")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.value(item, v.Index(i))
	}
}

func (d *decoder) dictionary(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, "a mapping")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], value)
		v.SetMapIndex(reflect.ValueOf(n.Content[i].Value).Convert(v.Type().Key()), value)
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		// A name like 123 or yes is text.
		if n.Kind != yaml.ScalarNode {
			d.wrong(n, "a text")
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		var b bool
		if n.Kind != yaml.ScalarNode || n.Decode(&b) != nil {
			d.wrong(n, "true or false")
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		var i int64
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&i) != nil || v.Kind() == reflect.Int && (i > math.MaxInt32 || i < math.MinInt32) {
			d.wrong(n, "a whole number")
			return
		}
		v.SetInt(i)
	default:
		panic(fmt.Sprintf("orgfile: cannot decode into %s", v.Type()))
	}
}

func (d *decoder) time(n *yaml.Node, v reflect.Value) {
	t, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.wrong(n, "a time such as 2030-01-01T00:00:00Z")
		return
	}
	v.Set(reflect.ValueOf(t.UTC()))
}

func (d *decoder) wrong(n *yaml.Node, want string) {
	d.complaints.Add(n.Line, "expected %s", want)
	d.incomplete[d.in] = true
}
