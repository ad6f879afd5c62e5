// Package conformance_test runs the checklist of the stacks API against this server, and against servers that
// break one rule each. It is not in the checklist's package, which is a client and imports nothing of the
// server.
package conformance_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/stackctl/verify"
)

// inspect runs the checklist against a server behind a proxy that can change requests and responses.
func inspect(t *testing.T, s *servertest.Server, c verify.Config, front func(next http.Handler) http.Handler) *verify.Report {
	t.Helper()
	report, err := tryInspect(t.Context(), s, c, front)
	if err != nil {
		t.Errorf("the run: %v", err)
	}
	return report
}

// tryInspect is inspect that can fail. When the checklist waits, the server's clock moves; the proxy sends its
// time in the header Date.
func tryInspect(ctx context.Context, s *servertest.Server, c verify.Config, front func(next http.Handler) http.Handler) (*verify.Report, error) {
	clocked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", s.Clock.Now().Format(http.TimeFormat))
		s.ServeHTTP(w, r)
	})
	facade := httptest.NewServer(front(clocked))
	defer facade.Close()
	c.Endpoint, c.Token = facade.URL+"/v3", servertest.AcmeAgent
	var due error
	c.Wait = func(ctx context.Context, d time.Duration) {
		s.Clock.Advance(d)
		due = errors.Join(due, s.RunDue(context.WithoutCancel(ctx)))
	}
	report := &verify.Report{}
	return report, errors.Join(verify.Run(ctx, c, report.Add), due)
}

// plain is a proxy that changes nothing.
func plain(next http.Handler) http.Handler { return next }

// failed returns the ids of failed rules.
func failed(r *verify.Report) []string {
	ids := []string{}
	for _, result := range r.Results {
		if result.Outcome == verify.Fail {
			ids = append(ids, result.Rule)
		}
	}
	return ids
}

// describe returns the failures of a report as text.
func describe(r *verify.Report) string {
	var b strings.Builder
	for _, result := range r.Results {
		one := verify.Report{}
		one.Add(result)
		if result.Outcome == verify.Fail {
			one.WriteText(&b)
		}
	}
	return b.String()
}

func TestRun_FindsNothingWrongWithOurServer(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		report := inspect(t, s, verify.Config{Quota: true, RESTToken: servertest.Ada}, plain)
		if report.Failed > 0 {
			t.Error(describe(report))
		}
	})
}
