package agents_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// serve starts a server with real time and all background work. Pings wait for as long as wait returns.
func serve(b *testing.B, d *db.DB, wait func(idle time.Duration) time.Duration) *servertest.Server {
	s := servertest.Start(b, d, func(p *server.Parts) {
		p.Clock = core.SystemClock
		p.Agents.PingWait = wait
	})
	s.Apply(servertest.World)
	s.Apply("organizations: [{slug: acme, limits: {rest_requests_per_second: 0}}]")
	s.Server.Start()
	b.Cleanup(s.Server.Stop)
	return s
}

// onDisk returns a database that writes transactions to disk before it acknowledges them.
func onDisk(b *testing.B, engine db.Engine) *db.DB {
	b.Helper()
	if engine == db.PostgreSQL {
		postgres, err := dbtest.StartServer(nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(postgres.Stop)
		return dbtest.Open(b, postgres.Database(b))
	}
	d, err := db.Open(b.Context(), filepath.Join(b.TempDir(), "stackyard.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	if err := d.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return d
}

// A member is an agent of a fleet.
type member struct {
	*servertest.Caller
	token string
}

// newMembers registers and connects n agents, each with its own connection.
func newMembers(t testing.TB, address string, n int) []*member {
	t.Helper()
	fleet := make([]*member, n)
	const atOnce = 16
	concurrently(t, atOnce, func(first int) error {
		for i := first; i < n; i += atOnce {
			c, err := servertest.Dial(address)
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
			var made struct {
				AccessToken string `json:"access_token"`
			}
			if err := c.Call("POST", "/v3/register", servertest.AcmeAgent, `{"name": "%hostname-%random", "hostname": "host", "meta_data": ["os=linux"]}`, &made); err != nil {
				return err
			}
			fleet[i] = &member{c, made.AccessToken}
			if err := c.Call("POST", "/v3/connect", made.AccessToken, "", nil); err != nil {
				return err
			}
			c.Idle()
		}
		return nil
	})
	return fleet
}

// ping pings and returns the id of the offered job, "" for none.
func (m *member) ping() (string, error) {
	var ping struct{ Job struct{ ID string } }
	err := m.Call("GET", "/v3/ping", m.token, "", &ping)
	return ping.Job.ID, err
}

// accept accepts a job and returns its token.
func (m *member) accept(job string) (string, error) {
	var taken struct{ Token string }
	err := m.Call("PUT", "/v3/jobs/"+job+"/accept", m.token, "", &taken)
	return taken.Token, err
}

// run starts an accepted job, sends a line of log and finishes the job with success.
func (m *member) run(job, token string) error {
	const line = "hello from a job\r\n"
	path := "/v3/jobs/" + job
	for _, step := range []struct{ method, path, body string }{
		{"PUT", path + "/start", `{"started_at": "2026-01-02T03:04:05Z"}`},
		{"POST", fmt.Sprintf("%s/chunks?sequence=1&offset=0&size=%d", path, len(line)), line},
		{"PUT", path + "/finish", `{"exit_status": "0", "finished_at": "2026-01-02T03:04:06Z", "chunks_failed_count": 0}`},
	} {
		if err := m.Call(step.method, step.path, token, step.body, nil); err != nil {
			return err
		}
	}
	return nil
}

// concurrently calls fn n times at once and ends the test if a call fails.
func concurrently(t testing.TB, n int, fn func(i int) error) {
	t.Helper()
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			if err := fn(i); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// engines are the engines that benchmarks compare.
var engines = []db.Engine{db.SQLite, db.PostgreSQL}
