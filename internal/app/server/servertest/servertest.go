// Package servertest starts the real server, on either engine and on a real port, for tests that send HTTP
// requests. Every response is validated against the server's OpenAPI document.
package servertest

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server"
	"stackyard/internal/domain/agents"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/core/coretest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/seal"
)

// Server is a running server with its own database.
type Server struct {
	URL   string
	DB    *db.DB
	Blobs *blob.Store
	Key   seal.Key
	Clock *coretest.Clock
	*server.Server

	t         testing.TB
	validator *validator
	// eventsSeen is the number of the last event that Events returned.
	eventsSeen int64
}

// Each runs a test against a fresh server on each engine. The server has two unrelated organizations: see
// World.
func Each(t *testing.T, fn func(t *testing.T, s *Server)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := Start(t, d)
		s.Apply(World)
		fn(t, s)
	})
}

// Start starts a server on a database and stops it when the test ends. change can replace parts of it before.
func Start(t testing.TB, d *db.DB, change ...func(*server.Parts)) *Server {
	t.Helper()
	blobs, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{DB: d, Blobs: blobs, Key: seal.NewKey(), Clock: NewClock(), t: t}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.URL = "http://" + listener.Addr().String()
	parts := server.Parts{
		DB:             d,
		Blobs:          blobs,
		Key:            s.Key,
		Public:         core.PublicURL(s.URL),
		Clock:          s.Clock.Now,
		Log:            slog.New(slog.DiscardHandler),
		Version:        "test",
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		OutboundAllow:  []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Peer:           s.URL,
		Agents:         agents.Settings{LostAfter: agents.DefaultLostAfter, PingWait: func(time.Duration) time.Duration { return 20 * time.Millisecond }},
	}
	for _, change := range change {
		change(&parts)
	}
	if parts.DatabaseClock == nil {
		parts.DatabaseClock = parts.Clock
	}
	s.Server, err = server.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	running := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s.Server}}
	running.Start()
	t.Cleanup(running.Close)
	s.validator = newValidator(t, s.URL, s.Routes())
	return s
}

// Replica starts another server of the same installation: the same database, key, blobs and time. Its
// notifications reach the first server only on PostgreSQL.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	return s.replica(t, s.Clock.Now)
}

// SkewedReplica is a Replica on a machine whose clock is ahead of the database's.
func (s *Server) SkewedReplica(t testing.TB, ahead time.Duration) *Server {
	t.Helper()
	return s.replica(t, func() time.Time { return s.Clock.Now().Add(ahead) })
}

func (s *Server) replica(t testing.TB, clock core.Clock) *Server {
	t.Helper()
	r := Start(t, s.DB, func(p *server.Parts) {
		p.Key, p.Blobs, p.Clock, p.DatabaseClock = s.Key, s.Blobs, clock, s.Clock.Now
	})
	r.Key, r.Blobs, r.Clock = s.Key, s.Blobs, s.Clock
	return r
}

// Apply applies an organization file and returns the lines that it printed.
func (s *Server) Apply(file string) []string {
	s.t.Helper()
	lines, err := orgfile.Apply(s.t.Context(), s.DB, s.Key, s.Clock.Now, []byte(file))
	if err != nil {
		s.t.Fatalf("apply: %v", err)
	}
	// The server notices a change by another process within half a second.
	s.Clock.Advance(time.Second)
	return lines
}

// NewClock returns a clock that stays at the current time.
func NewClock() *coretest.Clock { return coretest.NewClock(core.SystemClock()) }
