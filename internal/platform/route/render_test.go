package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/core"
)

// logRecords is a log handler that collects records for a test.
type logRecords chan slog.Record

func (l logRecords) Enabled(context.Context, slog.Level) bool { return true }
func (l logRecords) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logRecords) WithGroup(string) slog.Handler            { return l }
func (l logRecords) Handle(_ context.Context, r slog.Record) error {
	l <- r
	return nil
}

func TestFail_DoesNotBlameTheServerForAClientThatWentAway(t *testing.T) {
	records := make(logRecords, 10)
	begun := make(chan struct{})
	s := New(Config{Log: slog.New(records), Metrics: prometheus.NewRegistry()}, []Route{{
		Method: http.MethodGet, Path: "/slow", Auth: Open,
		Handler: Do(func(r *Request) (Nothing, error) {
			close(begun)
			<-r.Context().Done()
			return Nothing{}, errors.New("the statement was interrupted")
		}),
	}})
	running := httptest.NewServer(s)
	t.Cleanup(running.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, running.URL+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		t.Fatalf("answered %s", resp.Status)
	}
	for {
		record := <-records
		if record.Level >= slog.LevelWarn {
			t.Errorf("logged %s %q", record.Level, record.Message)
		}
		if record.Message != "request" {
			continue
		}
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == "status" && a.Value.Int64() != statusClientGone {
				t.Errorf("logged with status %v", a.Value)
			}
			return true
		})
		return
	}
}

func TestFail_NamesFieldsInTheMessage(t *testing.T) {
	many := func(n int) error {
		var problems core.Problems
		for i := range n {
			problems.Add(fmt.Sprintf("f%d", i), "is required")
		}
		return problems.Err()
	}
	for _, c := range []struct {
		route Route
		err   error
		want  string
	}{
		{Route{}, many(1), "Validation Failed: f0 is required"},
		{Route{}, many(2), "Validation Failed: f0 is required, f1 is required"},
		{Route{Auth: Job}, many(1), "Validation Failed: f0 is required"},
		{Route{PlainValidation: true}, many(2), "Validation Failed"},
		{Route{}, core.Errorf(core.Unprocessable, "no"), "no"},
	} {
		if got := c.route.withFieldNames(c.err).(*core.Error); got.Message != c.want || len(got.Fields) != len(c.err.(*core.Error).Fields) {
			t.Errorf("%v: %q with %d fields, want %q", c.err, got.Message, len(got.Fields), c.want)
		}
	}
	got := new(Route).withFieldNames(many(1000)).(*core.Error)
	if !strings.HasSuffix(got.Message, "f9 is required, and 990 more") || len(got.Fields) != 1000 {
		t.Errorf("a thousand fields: %q and %d fields", got.Message, len(got.Fields))
	}
	w := httptest.NewRecorder()
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{{
		Method: http.MethodGet, Path: "/x", Auth: Open, Handler: Do(func(*Request) (Nothing, error) { return Nothing{}, many(1) }),
	}})
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x", nil))
	var view errorView
	if err := json.Unmarshal(w.Body.Bytes(), &view); err != nil || w.Code != 422 || view.Message != "Validation Failed: f0 is required" || len(view.Errors) != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
