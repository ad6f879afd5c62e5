package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// status expects a status.
func (t *checker) status(a *response, want int) *response {
	t.want(a, a.status == want, "status "+strconv.Itoa(want), "status %d", a.status)
	return a
}

// refused expects a status, and a message in the body.
func (t *checker) refused(a *response, want int) *response {
	t.status(a, want)
	message, ok := a.at("message").(string)
	t.want(a, ok && message != "", `a JSON object with a "message" string`, "no such message")
	return a
}

// at returns the value at a path of keys and indexes, for example page_info.end_cursor, or nil.
func (a *response) at(path string) any {
	v, _ := a.lookUp(path)
	return v
}

func (a *response) lookUp(path string) (v any, ok bool) {
	v = a.json
	if path == "" {
		return v, v != nil
	}
	for key := range strings.SplitSeq(path, ".") {
		switch within := v.(type) {
		case map[string]any:
			if v, ok = within[key]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(within) {
				return nil, false
			}
			v = within[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// text returns the string at a path, or "".
func (a *response) text(path string) string {
	s, _ := a.at(path).(string)
	return s
}

// list returns the array at a path, or nil.
func (a *response) list(path string) []any {
	l, _ := a.at(path).([]any)
	return l
}

// texts returns the strings of the array at a path.
func (a *response) texts(path string) []string {
	var texts []string
	for _, v := range a.list(path) {
		if s, ok := v.(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

// A kind is an expected type of a JSON value.
type kind struct {
	name string
	is   func(v any) bool
}

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

	text      = kind{"a string", func(v any) bool { _, ok := v.(string); return ok }}
	uuid      = kind{"a UUID", func(v any) bool { s, _ := v.(string); return uuidPattern.MatchString(strings.ToLower(s)) }}
	boolean   = kind{"true or false", func(v any) bool { _, ok := v.(bool); return ok }}
	integer   = kind{"an integer", func(v any) bool { return isInteger(v) }}
	object    = kind{"an object", func(v any) bool { _, ok := v.(map[string]any); return ok }}
	array     = kind{"an array", func(v any) bool { _, ok := v.([]any); return ok }}
	timestamp = kind{"an ISO 8601 time", func(v any) bool { s, _ := v.(string); _, err := time.Parse(time.RFC3339, s); return err == nil }}
	// exactTime is the format that the specification requires for last_connected_on.
	exactTime = kind{"an ISO 8601 time in UTC with milliseconds", func(v any) bool {
		s, _ := v.(string)
		_, err := time.Parse("2006-01-02T15:04:05.000Z", s)
		return err == nil
	}}
	texts     = kind{"an array of strings", func(v any) bool { return eachIs(v, text) }}
	stringMap = kind{"an object of strings", func(v any) bool {
		m, ok := v.(map[string]any)
		for _, v := range m {
			ok = ok && text.is(v)
		}
		return ok
	}}
)

func isInteger(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	_, err := n.Int64()
	return err == nil
}

func eachIs(v any, k kind) bool {
	list, ok := v.([]any)
	for _, item := range list {
		ok = ok && k.is(item)
	}
	return ok
}

// orNull returns a kind that also accepts null.
func orNull(k kind) kind {
	return kind{k.name + " or null", func(v any) bool { return v == nil || k.is(v) }}
}

// A shape maps the fields of an object to their kinds.
type shape map[string]kind

// has expects the fields of a shape in the object at a path; "" is the body itself.
func (t *checker) has(a *response, path string, s shape) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		full := strings.TrimPrefix(path+"."+name, ".")
		v, ok := a.lookUp(full)
		t.want(a, ok, fmt.Sprintf("a field %s, which is %s", full, s[name].name), "no such field")
		t.want(a, s[name].is(v), fmt.Sprintf("%s to be %s", full, s[name].name), "%s", show(v))
	}
}

// is expects a value at a path.
func (t *checker) is(a *response, path string, want any) {
	v, ok := a.lookUp(path)
	t.want(a, ok, fmt.Sprintf("%s to be %s", path, show(want)), "no such field")
	t.want(a, show(v) == show(want), fmt.Sprintf("%s to be %s", path, show(want)), "%s", show(v))
}

// show returns a value as JSON with sorted keys.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return shorten(string(b))
}

// near expects a time that is a number of seconds after the response, within the tolerance of calls and clocks.
func (t *checker) near(a *response, path string, after int) {
	const slack = 5 * time.Second
	want := time.Duration(after) * time.Second
	at, err := time.Parse(time.RFC3339, a.text(path))
	t.want(a, err == nil, path+" to be "+timestamp.name, "%s", show(a.at(path)))
	got := at.Sub(a.time())
	t.want(a, (got-want).Abs() <= slack, fmt.Sprintf("%s about %s after the answer", path, want), "%s, which is %s after it", a.text(path), got)
}

// ok reports whether the call succeeded.
func (a *response) ok() bool { return a.status >= 200 && a.status < 300 }
