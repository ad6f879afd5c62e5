package route

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

type sample struct {
	Name   string            `json:"name"`
	Count  int               `json:"count"`
	Flag   Opt[bool]         `json:"flag"`
	Tags   []string          `json:"tags"`
	Env    map[string]string `json:"env"`
	Nested struct {
		Deep int `json:"deep"`
	} `json:"nested"`
}

func TestDecode_RefusesWithASentenceThatHelps(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"cut off", `{"name": "x"`, `The request body is not valid JSON: unexpected end of JSON input, at line 1 (byte 12)`},
		{"stray comma", "{\n\"name\": \"x\",\n}", `The request body is not valid JSON: invalid character '}' looking for beginning of object key string, at line 3 (byte 16)`},
		{"trailing data", `{} {}`, `The request body is not valid JSON: invalid character '{' after top-level value, at line 1 (byte 4)`},
		{"form", `name=x`, `The request body must be a JSON object; form encoding is not accepted`},
		{"array", `[1]`, `The request body must be a JSON object, not an array`},
		{"text", `"x"`, `The request body must be a JSON object, not a string`},
		{"null", `null`, `The request body must be a JSON object, not null`},
		{"bad UTF-8", "{\"name\": \"\xff\"}", `The request body is not valid UTF-8`},
		{"NUL", `{"name": "a\u0000b"}`, `The request body holds the character U+0000, which is not allowed`},
		{"high surrogate", `{"name": "a\ud83db"}`, `The request body holds \ud83d, which is half of a surrogate pair without the other half`},
		{"high surrogate at the end", `{"name": "\uD83D"}`, `The request body holds \ud83d, which is half of a surrogate pair without the other half`},
		{"low surrogate", `{"name": "\\\ude00"}`, `The request body holds \ude00, which is half of a surrogate pair without the other half`},
		{"surrogates the wrong way", `{"name": "\ude00\ud83d"}`, `The request body holds \ude00, which is half of a surrogate pair without the other half`},
		{"surrogate in a key", `{"\ud83d": 1}`, `The request body holds \ud83d, which is half of a surrogate pair without the other half`},
		{"UTF-16", "\xff\xfe{\x00}\x00", `The request body is not valid UTF-8`},
		{"two byte-order marks", "\ufeff\ufeff{}", `The request body must be a JSON object; form encoding is not accepted`},
	} {
		err := Decode([]byte(c.body), new(sample))
		if err == nil || err.Error() != c.want || core.KindOf(err) != core.BadRequest {
			t.Errorf("%s: got %v (kind %d), want %s", c.name, err, core.KindOf(err), c.want)
		}
	}
}

func TestDecode_ReadsEveryWayToSpellAText(t *testing.T) {
	for body, want := range map[string]string{
		"\ufeff" + `{"name": "x"}`:         "x",
		"\ufeff\n" + `{"name": "x"}`:       "x",
		`{"name": "\ud83d\ude00 \\ud83d"}`: "😀 \\ud83d",
		`{"name": "\u00e9\\"}`:             "é\\",
	} {
		var got sample
		if err := Decode([]byte(body), &got); err != nil || got.Name != want {
			t.Errorf("%q: %q, %v, want %q", body, got.Name, err, want)
		}
	}
	if err := Decode([]byte("\ufeff"), new(sample)); err != nil {
		t.Errorf("a byte-order mark alone: %v", err)
	}
}

func TestLater_IsDecodedByTheHandler(t *testing.T) {
	var body struct {
		Env Later[map[string]string] `json:"env"`
	}
	if err := Decode([]byte(`{"env": {"A": 1}}`), &body); err != nil {
		t.Fatal(err)
	}
	var problems core.Problems
	body.Env.Decode("env", &problems)
	if want := (core.FieldError{Field: "env", Code: "has a value that must be a string, not a number"}); len(problems) != 1 || problems[0] != want {
		t.Errorf("problems %v, want %v", problems, want)
	}
}

func TestDecode_ReportsAllFieldsOfAWrongTypeAtOnce(t *testing.T) {
	err := Decode([]byte(`{"name": 1, "count": 1.5, "flag": "yes", "tags": "a", "env": {"A": 1}, "nested": {"deep": "x"}, "other": 1}`), new(sample))
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Unprocessable || e.Message != core.ValidationFailed {
		t.Fatalf("got %v", err)
	}
	want := []core.FieldError{
		{Field: "name", Code: "must be a string, not a number"},
		{Field: "count", Code: "must be an integer, not a number"},
		{Field: "flag", Code: "must be true or false, not a string"},
		{Field: "tags", Code: "must be an array, not a string"},
		{Field: "env", Code: "has a value that must be a string, not a number"},
		{Field: "nested.deep", Code: "must be an integer, not a string"},
	}
	if !reflect.DeepEqual([]core.FieldError(e.Fields), want) {
		t.Errorf("got  %v\nwant %v", e.Fields, want)
	}
}

func TestDecode_KnowsAbsentFromNullFromValue(t *testing.T) {
	for body, want := range map[string]Opt[bool]{
		``:               {},
		`{}`:             {},
		`{"flag": null}`: {Set: true, Null: true},
		`{"flag": true}`: {Set: true, Value: true},
	} {
		var s sample
		if err := Decode([]byte(body), &s); err != nil || s.Flag != want {
			t.Errorf("%s: got %+v, %v, want %+v", body, s.Flag, err, want)
		}
	}
}

func TestDecode_TakesAnEscapedBackslashForWhatItIs(t *testing.T) {
	var s sample
	if err := Decode([]byte(`{"name": "\\u0000"}`), &s); err != nil || s.Name != `\u0000` {
		t.Fatalf("got %q, %v", s.Name, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name": "x", "count": 3, "flag": null, "tags": ["a"], "env": {"A": "b"}, "nested": {"deep": 1}}`))
	f.Add([]byte(`{"name": "\\u0000"}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got sample
		err := Decode(body, &got)
		if err != nil {
			if kind := core.KindOf(err); kind != core.BadRequest && kind != core.Unprocessable {
				t.Fatalf("%q: kind %d, %v", body, kind, err)
			}
			return
		}
		if strings.ContainsRune(got.Name, 0) {
			t.Fatalf("%q: U+0000 came through", body)
		}
		// Decode accepts what the standard library accepts, for bodies without unusual spellings of keys.
		if len(body) > 0 && json.Valid(body) {
			var keys map[string]json.RawMessage
			if json.Unmarshal(body, &keys) != nil {
				t.Fatalf("%q: accepted, but no object", body)
			}
		}
	})
}

func TestDecode_RefusesUnknownFieldsOfStrictBodies(t *testing.T) {
	type strictSample struct {
		Strict
		Name string `json:"name"`
	}
	for body, want := range map[string]string{
		`{}`:                               "",
		`{"name": "x"}`:                    "",
		`{"name": "x", "b": 1, "a": null}`: "Validation Failed: a is not a known field, b is not a known field",
		`{"Name": "x"}`:                    "Validation Failed: Name is not a known field",
		`{"name": 1, "a": 2}`:              "Validation Failed: name must be a string, not a number, a is not a known field",
		`{"` + strings.Repeat("é", 200) + `": 1}`: "Validation Failed: " + strings.Repeat("é", 100) + " is not a known field",
	} {
		err := Decode([]byte(body), new(strictSample))
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
