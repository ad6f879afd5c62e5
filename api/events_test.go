package api_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"stackyard/api"
)

func TestFollow_ResumesAStreamBehindTheLastEvent(t *testing.T) {
	var resumed []string
	c := peer(t, func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		switch len(resumed) {
		case 1:
			io.WriteString(w, "retry: 1\n\n: alive\n\nevent: unknown\n\n")
			io.WriteString(w, "id: 3\nevent: log\ndata: a\ndata: b\n\nid: 9\ndata: cut before its e")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			io.WriteString(w, "id: 5\nevent: log\ndata: c\n\nevent: end\ndata: {}\n\nevent: log\ndata: too much\n\n")
		}
	})
	var got []string
	err := c.Follow(t.Context(), "/log", func(e api.Event) (bool, error) {
		got = append(got, e.Name+" "+string(e.Data))
		return e.Name == "end", nil
	})
	if err != nil || !slices.Equal(got, []string{"log a\nb", "log c", "end {}"}) || !slices.Equal(resumed, []string{"", "3", "3"}) {
		t.Errorf("got %q, %v; resumed behind %q", got, err, resumed)
	}
}

func TestFollow_EndsWhenItIsRefusedOrItsReaderFails(t *testing.T) {
	asked := 0
	c := peer(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, "data: {}\n\n")
	})
	full := errors.New("disk full")
	for path, want := range map[string]error{"/gone": &api.Error{}, "/log": full} {
		err := c.Follow(t.Context(), path, func(api.Event) (bool, error) { return false, full })
		if refusal := (*api.Error)(nil); !errors.Is(err, want) && !errors.As(err, &refusal) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if asked != 2 {
		t.Errorf("the server was asked %d times", asked)
	}
}
