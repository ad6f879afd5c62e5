package route

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/core"
)

type storyView struct {
	Text string `json:"text"`
}

// streamServer serves the output of write at /SEGMENT.
func streamServer(t *testing.T, size int64, write func(w http.ResponseWriter) error) *httptest.Server {
	t.Helper()
	stream := func(r *Request) (StreamOf[storyView], error) {
		r.SetHeader("Content-Range", "bytes 0-1/2")
		return StreamOf[storyView]{Stream{Status: http.StatusPartialContent, Type: "text/plain; charset=utf-8", Size: size, Write: write}}, nil
	}
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{
		{Method: http.MethodGet, Path: "/story", Auth: Open, Media: []string{"text/plain"}, Errors: []int{206}, Handler: Do(stream)},
	})
	running := httptest.NewServer(s)
	t.Cleanup(running.Close)
	return running
}

func get(t *testing.T, method, url string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func TestStream_WritesItsOwnBody(t *testing.T) {
	s := streamServer(t, 9, func(w http.ResponseWriter) error {
		io.WriteString(w, "a long ")
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		_, err := io.WriteString(w, "st")
		return err
	})
	resp, body, err := get(t, "GET", s.URL+"/story")
	if err != nil || resp.StatusCode != 206 || body != "a long st" || resp.ContentLength != 9 || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%v %v %q", resp, err, body)
	}
}

func TestStream_OfNothingHasItsHeader(t *testing.T) {
	s := streamServer(t, 0, func(http.ResponseWriter) error { return nil })
	resp, body, err := get(t, "GET", s.URL+"/story")
	if err != nil || resp.StatusCode != 206 || body != "" || resp.Header.Get("Content-Range") == "" {
		t.Errorf("%v %v %q", resp, err, body)
	}
}

func TestStream_IsNotWrittenForHEAD(t *testing.T) {
	s := streamServer(t, 1<<40, func(http.ResponseWriter) error { panic("written") })
	resp, _, err := get(t, "HEAD", s.URL+"/story")
	if err != nil || resp.StatusCode != 206 || resp.ContentLength != 1<<40 {
		t.Errorf("%v %v", resp, err)
	}
}

func TestStream_AnswersAnErrorBeforeTheFirstByte(t *testing.T) {
	s := streamServer(t, 9, func(http.ResponseWriter) error { return core.Errorf(core.OutOfRange, "There is nothing") })
	resp, body, err := get(t, "GET", s.URL+"/story")
	if err != nil || resp.StatusCode != 416 || !strings.Contains(body, `"There is nothing"`) || resp.Header.Get("Content-Range") != "" {
		t.Errorf("%v %v %q", resp, err, body)
	}
}

func TestStream_BreaksTheConnectionAfterTheFirstByte(t *testing.T) {
	for _, size := range []int64{-1, 100} {
		s := streamServer(t, size, func(w http.ResponseWriter) error {
			io.WriteString(w, "a long ")
			http.NewResponseController(w).Flush()
			return errors.New("the disk is gone")
		})
		if resp, body, err := get(t, "GET", s.URL+"/story"); err == nil {
			t.Errorf("size %d: %v %q looks whole", size, resp, body)
		}
	}
}

func TestOpenAPI_DocumentsWhatAStreamCanBe(t *testing.T) {
	do := func(*Request) (Stream, error) { return Stream{}, nil }
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{
		{Method: http.MethodGet, Path: "/a", Auth: Open, Media: []string{"text/plain", "text/html"}, Handler: Do(func(*Request) (StreamOf[storyView], error) { return StreamOf[storyView]{}, nil })},
		{Method: http.MethodGet, Path: "/b", Auth: Open, Media: []string{"*/*"}, Handler: Do(do)},
	})
	source, err := s.OpenAPI("test")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal(source, &document); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{"/a": {"application/json", "text/plain", "text/html"}, "/b": {"*/*"}} {
		got := document.Paths[path]["get"].Responses["200"].Content
		if len(got) != len(want) {
			t.Errorf("%s documents %v, want %v", path, got, want)
		}
		for _, kind := range want {
			if got[kind] == nil {
				t.Errorf("%s does not document %s", path, kind)
			}
		}
	}
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct{ path, accept, want string }{
		{"/log", "", "application/json"},
		{"/log", "*/*", "application/json"},
		{"/log", "application/json", "application/json"},
		{"/log", "text/plain", "text/plain"},
		{"/log", "Text/Plain; charset=utf-8", "text/plain"},
		{"/log", "text/html,application/xhtml+xml", "text/html"},
		{"/log", "image/png, text/plain;q=0.5", "text/plain"},
		{"/log", "image/png", "application/json"},
		{"/log", "text/html;q=0.5, text/plain;q=0.9, application/json;q=0.1", "text/plain"},
		{"/log", "text/html;q=0.5, application/json", "application/json"},
		{"/log", "text/plain, application/json", "text/plain"},
		{"/log", "*/*, text/plain", "text/plain"},
		{"/log", "text/*", "text/plain"},
		{"/log", "text/*;q=0.3, */*;q=0.1", "text/plain"},
		{"/log", "text/*, text/plain;q=0", "text/html"},
		{"/log", "application/json;q=0, */*", "text/plain"},
		{"/log", "text/plain;q=0", "application/json"},
		{"/log", "text/plain;q=2, text/html;q=x, ;;, text/html;q=0.1", "text/html"},
		{"/log.txt", "application/json", "text/plain"},
		{"/log.html", "", "text/html"},
	} {
		w := httptest.NewRecorder()
		r := &Request{Request: httptest.NewRequest("GET", c.path, nil), w: w}
		r.Header.Set("Accept", c.accept)
		if got := r.Accepts("application/json", "text/plain", "text/html"); got != c.want {
			t.Errorf("%s with Accept %q: %s, want %s", c.path, c.accept, got, c.want)
		}
		if got, negotiated := w.Header().Get("Vary"), c.path == "/log"; (got == "Accept") != negotiated {
			t.Errorf("%s has Vary %q", c.path, got)
		}
	}
}
