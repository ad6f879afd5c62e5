package interop

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

// An answer is the result of a client call.
type answer[T any] struct {
	value    T
	response *buildkite.Response
	err      error
}

// call wraps the result of a client call, so that one line can make the call and check it:
//
//	pipeline := call(client.Pipelines.Get(ctx, "acme", "hello")).ok(t)
//	call(client.Pipelines.Get(ctx, "acme", "gone")).refused(t, http.StatusNotFound, "No pipeline found")
func call[T any](value T, response *buildkite.Response, err error) answer[T] {
	return answer[T]{value, response, err}
}

// do is call for calls that return no value.
func do(response *buildkite.Response, err error) answer[struct{}] {
	return call(struct{}{}, response, err)
}

// get is call for calls that do not return the response.
func get[T any](value T, err error) answer[T] { return call(value, nil, err) }

// ok returns the value, or fails the test if the call failed.
func (a answer[T]) ok(t *testing.T) T {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.value
}

// created is ok for a call that must return 201.
func (a answer[T]) created(t *testing.T) T {
	t.Helper()
	value := a.ok(t)
	if got := a.response.StatusCode; got != http.StatusCreated {
		t.Errorf("status %d, want %d", got, http.StatusCreated)
	}
	return value
}

// refused checks the status and the message of a refused call.
func (a answer[T]) refused(t *testing.T, status int, message string) {
	t.Helper()
	refusal, ok := errors.AsType[*buildkite.ErrorResponse](a.err)
	if !ok {
		t.Fatalf("got error %v, want an ErrorResponse", a.err)
	}
	if got := refusal.Response.StatusCode; got != status || refusal.Message != message {
		t.Errorf("refused with %d %q, want %d %q", got, refusal.Message, status, message)
	}
}

// wantEmpty checks that exactly the named fields of a decoded value are empty. A field that server and client
// spell differently is empty.
func wantEmpty(t *testing.T, decoded any, fields ...string) {
	t.Helper()
	slices.Sort(fields)
	got := empty(reflect.ValueOf(decoded), "")
	slices.Sort(got)
	if !slices.Equal(got, fields) {
		t.Errorf("%T has no value for %q, want %q to have none", decoded, got, fields)
	}
}

// empty returns the paths of empty fields.
func empty(v reflect.Value, path string) []string {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		return empty(v.Elem(), path)
	}
	if v.IsZero() {
		return []string{path}
	}
	if _, time := v.Interface().(buildkite.Timestamp); time || v.Kind() != reflect.Struct {
		return nil
	}
	var fields []string
	for field, value := range v.Fields() {
		name := field.Name
		if path != "" {
			name = path + "." + name
		}
		fields = append(fields, empty(value, name)...)
	}
	return fields
}
