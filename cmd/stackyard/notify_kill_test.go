package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const notifyFile = `
organizations:
  - slug: acme
    name: Acme Inc
    limits: {rest_requests_per_second: 0}
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: ` + adaToken + `, scopes: ["*"]}]
    clusters:
      - name: Default
        default: true
        queues: [{key: default, default: true}]
        agent_tokens: [{description: boot, token: svcct_acme-notify}]
    pipelines:
      - {slug: hello, name: Hello, repository: https://git.example.test/a.git, cluster: Default, configuration: "steps: [{command: make}]"}
`

// What a build causes until its job is scheduled, has started and has finished.
var buildEvents = map[string][]string{
	"scheduled": {"build.scheduled", "job.scheduled"},
	"running":   {"build.scheduled", "job.scheduled", "build.running", "job.started"},
	"passed":    {"build.scheduled", "job.scheduled", "build.running", "job.started", "job.finished", "build.finished"},
}

// The server is killed at random moments while builds run. Every event of every build arrives, in order, and none
// again after the server has recorded that it arrived.
func TestServe_LosesNoNotificationAfterKill9(t *testing.T) {
	t.Parallel()
	t.Run(string(db.SQLite), func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		notifyDespiteKills(t, 10**faults, []string{"--data", data}, "sqlite:"+filepath.Join(data, "stackyard.db"))
	})
	t.Run(string(db.PostgreSQL), func(t *testing.T) {
		t.Parallel()
		url := dbtest.URL(t, db.PostgreSQL)
		notifyDespiteKills(t, 2**faults, onPostgres(t, url), url)
	})
}

func notifyDespiteKills(t *testing.T, kills int, installation []string, database string) {
	apply(t, installation, notifyFile)
	installation = append(installation, "--outbound-allow", "127.0.0.0/8")
	r := newNotified(t)
	p := serveOn(t, installation)
	p.ask(t, adaToken, "POST", "/v2/organizations/acme/services", fmt.Sprintf(
		`{"provider": "webhook", "settings": {"url": %q, "events": ["build.scheduled", "build.running", "build.finished", "job.scheduled", "job.started", "job.finished"]}}`, r.URL)).want(t, http.StatusCreated)
	for range kills {
		var writers sync.WaitGroup
		for range concurrentWrites {
			writers.Go(func() { runBuilds(t, p) })
		}
		for range 1 + rand.IntN(100) {
			select {
			case <-r.arrived:
			case <-time.After(2 * waitLimit): // a lease of the killed process ends first
				t.Fatal("nothing arrived")
			}
		}
		p.kill()
		writers.Wait()
		r.afterKill(pendingDeliveries(t, database))
		p = serveOn(t, installation)
	}
	want := expectedEvents(t, p)
	eventually(t, 4*waitLimit, "all events arrive", func() bool { return r.count() >= len(want) })
	r.check(t, want)
	t.Logf("killed %d times: %d events of %d builds, %d requests, %d sent again because the server died before it recorded the response",
		kills, len(want), r.builds(), r.requests, r.repeated)
}

// buildsBetweenKills bounds the builds of one writer, so that deliveries keep up.
const buildsBetweenKills = 20

// runBuilds creates builds and runs their jobs until the server is killed.
func runBuilds(t *testing.T, p *process) {
	call := func(token, method, path, body string, into any) bool {
		req, err := http.NewRequest(method, p.URL+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return false
		}
		req.Header.Set("Authorization", token)
		req.Header.Set("Content-Type", "application/json")
		got, err := send(httpClient, req)
		if err != nil {
			return false // killed
		}
		if got.Status/100 != 2 || into != nil && json.Unmarshal(got.Body, into) != nil {
			t.Errorf("%s %s: status %d\n%s", method, path, got.Status, got.Body)
			return false
		}
		return true
	}
	var agent struct {
		Token string `json:"access_token"`
	}
	if !call("Token svcct_acme-notify", "POST", "/v3/register", `{"name": "a", "ignore_in_dispatches": true}`, &agent) ||
		!call("Token "+agent.Token, "POST", "/v3/connect", "", nil) {
		return
	}
	for range buildsBetweenKills {
		var build struct{ Jobs []struct{ ID string } }
		if !call("Bearer "+adaToken, "POST", pipelinesPath+"/hello/builds", `{"commit": "0123456789012345678901234567890123456789", "branch": "main"}`, &build) {
			return
		}
		var job struct{ Token string }
		path := "/v3/jobs/" + build.Jobs[0].ID
		if !call("Token "+agent.Token, "PUT", path+"/acquire", "", &job) ||
			!call("Token "+job.Token, "PUT", path+"/start", `{"started_at": "2026-01-02T03:04:05Z"}`, nil) ||
			!call("Token "+job.Token, "PUT", path+"/finish", `{"exit_status": "0", "finished_at": "2026-01-02T03:04:06Z"}`, nil) {
			return
		}
	}
}

// expectedEvents returns the events of all builds, each as "BUILD NAME".
func expectedEvents(t *testing.T, p *process) map[string]bool {
	t.Helper()
	want := map[string]bool{}
	for page := 1; ; page++ {
		builds := decode[[]struct{ ID, State string }](t, p.get(t, adaToken, fmt.Sprintf("%s/hello/builds?per_page=100&exclude_jobs=true&exclude_pipeline=true&page=%d", pipelinesPath, page)))
		for _, b := range builds {
			if buildEvents[b.State] == nil {
				t.Fatalf("build %s is %s", b.ID, b.State)
			}
			for _, name := range buildEvents[b.State] {
				want[b.ID+" "+name] = true
			}
		}
		if len(builds) < 100 {
			return want
		}
	}
}

// pendingDeliveries returns the ids of deliveries that no server has recorded the end of.
func pendingDeliveries(t *testing.T, database string) map[string]bool {
	t.Helper()
	d := dbtest.Open(t, database)
	defer d.Close()
	pending := map[string]bool{}
	err := d.Read(t.Context(), func(q *db.Q) error {
		return db.Each(q, func(scan db.Scan) error {
			var id string
			err := scan(&id)
			pending[id] = true
			return err
		}, `SELECT id FROM deliveries WHERE state = 'pending'`)
	})
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// notified is a receiver of webhooks.
type notified struct {
	*httptest.Server
	t       *testing.T
	arrived chan struct{}

	mu       sync.Mutex
	requests int
	repeated int
	answered map[string]bool     // ids of deliveries
	recorded map[string]bool     // those of them that the server has recorded, when it was last killed
	order    map[string][]string // names of events, by build
}

func newNotified(t *testing.T) *notified {
	r := &notified{t: t, arrived: make(chan struct{}, 1_000_000), answered: map[string]bool{}, recorded: map[string]bool{}, order: map[string][]string{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *notified) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the server was killed while it sent
	}
	var event struct {
		Event string
		Build struct{ ID string }
	}
	if err := json.Unmarshal(body, &event); err != nil {
		r.t.Errorf("%v in %s", err, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	id := req.Header.Get("X-Service-Delivery")
	switch {
	case r.recorded[id]:
		r.t.Errorf("%s of build %s came again after it was recorded", event.Event, event.Build.ID)
	case r.answered[id]:
		r.repeated++
	case event.Event != "ping":
		r.order[event.Build.ID] = append(r.order[event.Build.ID], event.Event)
	}
	r.answered[id] = true
	r.arrived <- struct{}{}
}

// afterKill notes which deliveries the server has recorded: all that were answered and are not pending.
func (r *notified) afterKill(pending map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.answered {
		r.recorded[id] = !pending[id]
	}
}

// count returns how many events have arrived, each counted once.
func (r *notified) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, names := range r.order {
		n += len(names)
	}
	return n
}

func (r *notified) builds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order)
}

// check compares what arrived with what happened.
func (r *notified) check(t *testing.T, want map[string]bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[string]bool{}
	for build, names := range r.order {
		if whole := buildEvents["passed"]; !slices.Equal(names, whole[:min(len(names), len(whole))]) {
			t.Errorf("build %s: events in the order %q", build, names)
		}
		for _, name := range names {
			got[build+" "+name] = true
		}
	}
	for event := range want {
		if !got[event] {
			t.Errorf("%s did not arrive", event)
		}
	}
	for event := range got {
		if !want[event] {
			t.Errorf("%s arrived and did not happen", event)
		}
	}
}
