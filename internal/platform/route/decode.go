package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"stackyard/internal/platform/core"
)

// maxBody is the maximum size of a request body, in bytes.
const maxBody = 4 << 20

// Opt is an optional field of a request body that records whether it was sent, and whether as null.
type Opt[T any] struct {
	Value T
	Set   bool // it was sent, as null or as a value
	Null  bool // it was sent as null
}

// UnmarshalJSON reads the field.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	if string(b) == "null" {
		o.Null = true
		return nil
	}
	return json.Unmarshal(b, &o.Value)
}

func (o Opt[T]) schemaType() reflect.Type { return reflect.TypeFor[*T]() }

// To writes the value, when it was sent, to dst; null is the zero value.
func (o Opt[T]) To(dst *T) {
	if o.Set {
		*dst = o.Value
	}
}

// Later is a field of a request body that its handler decodes, if other fields decide whether it applies.
type Later[T any] struct {
	Set  bool // it was sent, as null or as a value
	Null bool // it was sent as null
	raw  json.RawMessage
}

// UnmarshalJSON stores the field.
func (l *Later[T]) UnmarshalJSON(b []byte) error {
	l.Set, l.Null, l.raw = true, string(b) == "null", bytes.Clone(b)
	return nil
}

func (l Later[T]) schemaType() reflect.Type { return reflect.TypeFor[*T]() }

// Decode returns the value of the field with a name, and adds a problem when it has the wrong type. It returns
// the zero value when none was sent.
func (l Later[T]) Decode(name string, problems *core.Problems) (value T) {
	if !l.Set {
		return value
	}
	if err := json.Unmarshal(l.raw, &value); err != nil {
		path, rule := describe(field{name: name}, l.raw, err)
		problems.Add(path, "%s", rule)
	}
	return value
}

// Strict, embedded in a body type, makes Decode refuse unknown fields. Other types ignore them.
type Strict struct{}

func (Strict) strict() {}

// maxUnknown is how many unknown fields of a strict body are named.
const maxUnknown = 20

// unknown adds problems for the unknown fields of a strict body.
func unknown(sent map[string]json.RawMessage, target reflect.Type, problems *core.Problems) {
	names := make(map[string]bool, len(sent))
	for field := range fields(target) {
		names[field.name] = true
	}
	var extra []string
	for name := range sent {
		if !names[name] {
			extra = append(extra, core.Cut(name, 100))
		}
	}
	slices.Sort(extra)
	for _, name := range extra[:min(len(extra), maxUnknown)] {
		problems.Add(name, "is not a known field")
	}
}

// bodyTimeout is how long a client can take to send a body.
const bodyTimeout = 30 * time.Second

// decode reads the request's body into the struct that v points to. A missing body is an empty object.
func (r *Request) decode(v any) error {
	body, err := r.ReadBody(maxBody)
	if err == nil {
		err = Decode(body, v)
	}
	if err == nil {
		return nil
	}
	if limited := r.countUnread(); limited != nil {
		return limited
	}
	switch {
	case !r.route.Auth.byAgents():
		return err
	case r.route.Unprocessable:
		return asMessage(core.Unprocessable, err)
	}
	return asMessage(core.BadRequest, err)
}

// formType is the media type of forms.
const formType = "application/x-www-form-urlencoded"

// maxForm is the maximum size of a form, in bytes.
const maxForm = 64 << 10

// ReadForm reads the fields of a form sent as application/x-www-form-urlencoded.
func (r *Request) ReadForm() (url.Values, error) { return r.readForm(maxForm) }

// MaxForm is the maximum size of a large form, in bytes.
const MaxForm = maxBody

// ReadLargeForm is ReadForm for forms with texts that are as long as a request body can be, such as steps.
func (r *Request) ReadLargeForm() (url.Values, error) { return r.readForm(MaxForm) }

func (r *Request) readForm(most int64) (url.Values, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != formType {
		return nil, core.Errorf(core.BadRequest, "The request body must be a form (%s)", formType)
	}
	body, err := r.ReadBody(most)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, core.Errorf(core.BadRequest, "The form is malformed")
	}
	for name, values := range form {
		if !storable(name) || !storable(strings.Join(values, "")) {
			return nil, core.Errorf(core.BadRequest, "The form holds the character U+0000, or bytes that are not UTF-8")
		}
	}
	return form, nil
}

// DecodeForm reads parameters into the strings of the struct that v points to, by their JSON names. An empty
// parameter counts as missing, and a repeated one is refused. It ignores parameters that the struct does not
// have.
func DecodeForm(form url.Values, v any) error {
	target := reflect.ValueOf(v).Elem()
	for field := range fields(target.Type()) {
		if len(form[field.name]) > 1 {
			return core.Errorf(core.BadRequest, "%s is given more than once", field.name)
		}
		target.FieldByIndex(field.index).SetString(form.Get(field.name))
	}
	return nil
}

// ReadBody reads the whole body, unless it is larger than a number of bytes or slow to arrive. Handlers without
// a body type use it.
func (r *Request) ReadBody(most int64) ([]byte, error) {
	// A writer without deadlines, for example a recorder in a test, is never slow.
	connection := http.NewResponseController(r.w)
	connection.SetReadDeadline(time.Now().Add(r.server.bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, most))
	if err == nil {
		// After an error the deadline stays and closes the connection; the rest of the body is not read.
		connection.SetReadDeadline(time.Time{})
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, core.Errorf(core.TooLarge, "The request body is larger than %d bytes", tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, core.Errorf(core.TooSlow, "The request body did not arrive within %s", r.server.bodyTimeout)
	}
	if err != nil {
		return nil, core.Errorf(core.BadRequest, "The request body could not be read")
	}
	return body, nil
}

// asMessage converts invalid fields into one message, as the stacks and agent APIs require.
func asMessage(kind core.Kind, err error) error {
	if e, ok := errors.AsType[*core.Error](err); ok && len(e.Fields) > 0 {
		return core.Errorf(kind, "%s %s", e.Fields[0].Field, e.Fields[0].Code)
	}
	return err
}

// Decode reads a JSON object into the struct that v points to, field by field, so that the error lists all
// fields of a wrong type. It ignores unknown fields, unless the struct embeds Strict.
func Decode(body []byte, v any) error {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))) // some clients send a byte-order mark
	if len(body) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		return core.Errorf(core.BadRequest, "The request body is not valid UTF-8")
	}
	if err := checkEscapes(body); err != nil {
		return err
	}
	if tooMany(body, maxValues) {
		return core.Errorf(core.BadRequest, "The request body holds more than %d values", maxValues)
	}
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(body, &sent); err != nil {
		return malformed(body, err)
	}
	if sent == nil {
		return core.Errorf(core.BadRequest, "The request body must be a JSON object, not null")
	}
	var problems core.Problems
	target := reflect.ValueOf(v).Elem()
	for field := range fields(target.Type()) {
		raw, ok := sent[field.name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, target.FieldByIndex(field.index).Addr().Interface()); err != nil {
			path, rule := describe(field, raw, err)
			problems.Add(path, "%s", rule)
		}
	}
	if _, ok := v.(interface{ strict() }); ok {
		unknown(sent, target.Type(), &problems)
	}
	return problems.Err()
}

func malformed(body []byte, err error) error {
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return core.Errorf(core.BadRequest, "The request body must be a JSON object, not %s", article(typeErr.Value))
	}
	if body[0] != '{' {
		return core.Errorf(core.BadRequest, "The request body must be a JSON object; form encoding is not accepted")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(body[:min(int(syntax.Offset), len(body))], []byte("\n"))
		return core.Errorf(core.BadRequest, "The request body is not valid JSON: %s, at line %d (byte %d)", syntax, line, syntax.Offset)
	}
	return core.Errorf(core.BadRequest, "The request body is not valid JSON: %s", err)
}

// describe returns the field that could not be read, and the type that it should have.
func describe(field field, raw json.RawMessage, err error) (path, rule string) {
	path = field.name
	typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return path, fmt.Sprintf("is invalid: %s", err)
	}
	if typeErr.Field != "" {
		path += "." + typeErr.Field
	}
	must := fmt.Sprintf("must be %s, not %s", expected(typeErr.Type), article(typeErr.Value))
	// The library names the fields of structs on the path, but no keys and no indexes.
	switch {
	case typeErr.Field == "" && raw[0] == '{' && typeErr.Value != "object":
		return path, "has a value that " + must
	case typeErr.Field == "" && raw[0] == '[' && typeErr.Value != "array":
		return path, "has an item that " + must
	}
	return path, must
}

func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	default:
		return "an object"
	}
}

func article(jsonType string) string {
	kind, _, _ := strings.Cut(jsonType, " ") // "number 1.5": the value may be long or secret
	switch kind {
	case "array", "object":
		return "an " + kind
	case "bool":
		return "a boolean"
	default:
		return "a " + kind
	}
}

// checkEscapes refuses a JSON text whose escapes encode what no database can store: U+0000, or half of a
// surrogate pair.
func checkEscapes(body []byte) error {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return nil
		}
		r, ok := unicodeEscape(body[i:])
		switch {
		case !ok:
			body = body[min(i+2, len(body)):]
			continue
		case r == 0:
			return core.Errorf(core.BadRequest, "The request body holds the character U+0000, which is not allowed")
		}
		body = body[i+len(`\u0000`):]
		if !utf16.IsSurrogate(r) {
			continue
		}
		second, ok := unicodeEscape(body)
		if !ok || utf16.DecodeRune(r, second) == utf8.RuneError {
			return core.Errorf(core.BadRequest, `The request body holds \u%04x, which is half of a surrogate pair without the other half`, r)
		}
		body = body[len(`\u0000`):]
	}
}

// unicodeEscape returns the code unit of the escape \uXXXX at the start of a JSON text.
func unicodeEscape(body []byte) (rune, bool) {
	const length = len(`\u0000`)
	if len(body) < length || body[0] != '\\' || body[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(body[2:length]), 16, 16)
	return rune(n), err == nil
}

type field struct {
	name      string
	index     []int
	omitempty bool
	reflect.StructField
}

// fields yields the fields of a struct that have a JSON name, including those of embedded structs.
func fields(t reflect.Type) func(func(field) bool) {
	return func(yield func(field) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if !yield(field{name: name, index: f.Index, omitempty: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"), StructField: f}) {
				return
			}
		}
	}
}
