package servertest

import (
	"fmt"
	"testing"
)

// WantAt checks the values that a response has at some paths.
func WantAt(t testing.TB, r *Response, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if got := r.At(path); fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("%s is %v, want %v", path, got, value)
		}
	}
}

// WantEqual compares two values. what names them in the message.
func WantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
