package agents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// fleet is the agent API alone, with idle agents.
type fleet struct {
	*agents.Service
	url      string
	sessions []string
}

func newFleet(t testing.TB, d *db.DB, size int) *fleet {
	t.Helper()
	clock := servertest.NewClock()
	key, log := seal.NewKey(), slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if _, err := orgfile.Apply(t.Context(), d, key, clock.Now, []byte(servertest.World)); err != nil {
		t.Fatal(err)
	}
	events, directory := bus.New(d, log), identity.NewDirectory(d, clock.Now)
	public, metrics := core.PublicURL("http://ci.test"), prometheus.NewRegistry()
	jobs := lifecycle.New(d, pipelines.New(d, key, public, clock.Now, outbound.New(nil)), public, clock.Now, log)
	f := &fleet{Service: agents.New(agents.Parts{
		DB: d, Directory: directory, Bus: events, Builds: jobs,
		Dispatch: dispatch.New(d, events, clock.Now, log, metrics, dispatch.Jobs{Assign: jobs.Assign, AssignedTo: jobs.AssignedTo, Running: builds.RunningByPipeline, Slugs: pipelines.Slugs}),
		Key:      key, Public: public, Clock: clock.Now, Log: log,
		Settings: agents.Settings{PingWait: func(time.Duration) time.Duration { return 5 * time.Millisecond }},
	})}
	server := httptest.NewServer(route.New(route.Config{
		Directory: directory, Sessions: f.Authenticate, Registrations: f.AuthenticateRegistration, Public: public, Log: log, Metrics: metrics,
	}, f.Routes()))
	t.Cleanup(server.Close)
	f.url = server.URL
	for i := range size {
		f.sessions = append(f.sessions, f.register(t, i))
	}
	return f
}

func (f *fleet) register(t testing.TB, number int) (session string) {
	t.Helper()
	var registered struct {
		Token string `json:"access_token"`
	}
	body := fmt.Sprintf(`{"name": "agent-%d", "meta_data": ["number=%d"]}`, number, number)
	if err := json.Unmarshal(f.call(t, servertest.AcmeAgent, "POST", "/v3/register", body), &registered); err != nil {
		t.Fatal(err)
	}
	f.call(t, registered.Token, "POST", "/v3/connect", "")
	return registered.Token
}

func (f *fleet) call(t testing.TB, token, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Token "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s, %v", method, path, resp.Status, got, err)
	}
	return got
}

// all sends a request of every agent, all at once.
func (f *fleet) all(t testing.TB, method, path, body string) {
	t.Helper()
	var calls sync.WaitGroup
	for _, session := range f.sessions {
		calls.Go(func() { f.call(t, session, method, path, body) })
	}
	calls.Wait()
}

// Pings and heartbeats of idle agents run no statement, and one statement saves the presence of all.
func TestIdleAgents_CostNoStatements(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFleet(t, d, 50)
		f.all(t, "GET", "/v3/ping", "") // opens their sessions
		f.all(t, "GET", "/v3/ping", "")
		before := d.Statements()
		for range 3 {
			f.all(t, "GET", "/v3/ping", "")
			f.all(t, "POST", "/v3/heartbeat", `{"sent_at": "2026-01-02T03:04:05Z"}`)
		}
		servertest.WantEqual(t, "statements of 150 pings and 150 heartbeats", d.Statements()-before, 0)
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		servertest.WantEqual(t, "statements to save that 50 agents are there", d.Statements()-before, 2)
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		servertest.WantEqual(t, "statements to flush the presence of silent agents", d.Statements()-before, 2)
	})
}
