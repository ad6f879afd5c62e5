package agents_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// BenchmarkPing compares pings without a job with a bare handler that returns JSON, alternating so that both
// run under the same load: answered at once, and after a short wait.
func BenchmarkPing(b *testing.B) {
	for _, hold := range []time.Duration{0, time.Millisecond} {
		name := "at-once"
		if hold > 0 {
			name = "held"
		}
		b.Run(name+"/plain", func(b *testing.B) { benchmarkPing(b, hold, httptest.NewServer) })
		b.Run(name+"/tls", func(b *testing.B) { benchmarkPing(b, hold, httptest.NewTLSServer) })
	}
}

func benchmarkPing(b *testing.B, hold time.Duration, listen func(http.Handler) *httptest.Server) {
	const agents, each = 256, 40
	s := serve(b, dbtest.New(b, db.SQLite), func(time.Duration) time.Duration { return hold })
	ours := listen(s)
	b.Cleanup(ours.Close)
	bare := listen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(struct{}{})
	}))
	b.Cleanup(bare.Close)
	fleet := newMembers(b, ours.URL, agents)
	idle := make([]*member, agents)
	for i := range idle {
		c, err := servertest.Dial(bare.URL)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		idle[i] = &member{c, fleet[i].token}
	}
	askMany := func(fleet []*member) time.Duration {
		began := time.Now()
		concurrently(b, agents, func(i int) error {
			for range each {
				if _, err := fleet[i].ping(); err != nil {
					return err
				}
			}
			return nil
		})
		return time.Since(began)
	}
	askMany(fleet)
	askMany(idle)
	before := s.DB.Statements()
	var oursTook, bareTook time.Duration
	for b.Loop() {
		oursTook += askMany(fleet)
		bareTook += askMany(idle)
	}
	pings := float64(b.N * agents * each)
	b.ReportMetric(pings/oursTook.Seconds(), "pings/s")
	b.ReportMetric(pings/bareTook.Seconds(), "bare-requests/s")
	b.ReportMetric(bareTook.Seconds()/oursTook.Seconds(), "rate/bare-handler")
	b.ReportMetric(float64(s.DB.Statements()-before)/pings, "statements/ping")
	b.ReportMetric(0, "ns/op")
}
