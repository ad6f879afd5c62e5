package agents_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/db/dbtest"
	"stackyard/internal/server"
	"stackyard/internal/server/servertest"
)

// serve starts a server as it is released, with real time and all that it does in the background, which
// keeps agents waiting for as long as it is told.
func serve(b *testing.B, d *db.DB, hold func() time.Duration) *servertest.Server {
	s := servertest.Start(b, d, func(p *server.Parts) {
		p.Clock = core.SystemClock
		p.Agents.HoldPing = hold
	})
	s.Apply(servertest.World)
	s.Apply("organizations: [{slug: acme, limits: {rest_requests_per_second: 0}}]")
	s.Server.Start()
	b.Cleanup(s.Server.Stop)
	return s
}

// onDisk returns a database whose transactions are on a disk when they are acknowledged.
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
	d := dbtest.Open(b, filepath.Join(b.TempDir(), "stackyard.db"))
	if err := d.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return d
}

// A caller speaks HTTP over one connection. It does less than http.Client, and has no goroutine: what is
// measured is the server.
type caller struct {
	conn    net.Conn
	host    string
	answers *bufio.Reader
}

func dial(address string) (*caller, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	return &caller{conn: conn, host: u.Host}, nil
}

// send sends a request, whose answer is not waited for.
func (c *caller) send(method, path, token, body string) error {
	_, err := fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Token %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, c.host, token, len(body), body)
	return err
}

// receive waits for the answer to the request that was sent, which must be a success.
func (c *caller) receive() ([]byte, error) {
	if c.answers == nil {
		c.answers = bufio.NewReader(c.conn)
	}
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return body, err
}

// call sends a request and reads the answer into a value, unless that is nil.
func (c *caller) call(method, path, token, body string, into any) error {
	if err := c.send(method, path, token, body); err != nil {
		return err
	}
	answer, err := c.receive()
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// A member is an agent of a fleet.
type member struct {
	*caller
	token string
}

// enlist registers and connects a number of agents, each with a connection of its own.
func enlist(t testing.TB, address string, n int) []*member {
	t.Helper()
	fleet := make([]*member, n)
	const atOnce = 16
	together(t, atOnce, func(first int) error {
		for i := first; i < n; i += atOnce {
			c, err := dial(address)
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.conn.Close() })
			var made struct {
				AccessToken string `json:"access_token"`
			}
			if err := c.call("POST", "/v3/register", servertest.AcmeAgent, `{"name": "%hostname-%random", "hostname": "host", "meta_data": ["os=linux"]}`, &made); err != nil {
				return err
			}
			fleet[i] = &member{c, made.AccessToken}
			if err := c.call("POST", "/v3/connect", made.AccessToken, "", nil); err != nil {
				return err
			}
			c.answers = nil // an idle agent needs no buffer
		}
		return nil
	})
	return fleet
}

// ping asks for a job, and returns its id, "" for none.
func (m *member) ping() (string, error) {
	var told struct{ Job struct{ ID string } }
	err := m.call("GET", "/v3/ping", m.token, "", &told)
	return told.Job.ID, err
}

// accept accepts a job, and returns its token.
func (m *member) accept(job string) (string, error) {
	var taken struct{ Token string }
	err := m.call("PUT", "/v3/jobs/"+job+"/accept", m.token, "", &taken)
	return taken.Token, err
}

// run runs a job that was accepted: it begins, prints a line and ends well.
func (m *member) run(job, token string) error {
	const line = "hello from a job\r\n"
	path := "/v3/jobs/" + job
	for _, step := range []struct{ method, path, body string }{
		{"PUT", path + "/start", `{"started_at": "2026-01-02T03:04:05Z"}`},
		{"POST", fmt.Sprintf("%s/chunks?sequence=1&offset=0&size=%d", path, len(line)), line},
		{"PUT", path + "/finish", `{"exit_status": "0", "finished_at": "2026-01-02T03:04:06Z", "chunks_failed_count": 0}`},
	} {
		if err := m.call(step.method, step.path, token, step.body, nil); err != nil {
			return err
		}
	}
	return nil
}

// together does something so many times at once, and ends the test when any of it fails.
func together(t testing.TB, n int, fn func(i int) error) {
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

// engines are those that benchmarks compare.
var engines = []db.Engine{db.SQLite, db.PostgreSQL}
