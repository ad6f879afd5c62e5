package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/core/coretest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/seal"
	"stackyard/internal/rules/flow"
)

// A world is the builds of acme's pipeline hello, and who hands out their jobs.
type world struct {
	*db.DB
	t        testing.TB
	bus      *bus.Bus
	builds   *lifecycle.Service
	pipeline *pipelines.Pipeline
	org      string
	*dispatch.Dispatcher
	metrics *prometheus.Registry
	clock   *coretest.Clock

	mu     sync.Mutex
	fail   error  // returned by Assign
	before func() // is called before jobs are assigned
	done   map[string]bool
}

// each runs a test in a fresh world on each engine.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { fn(t, newWorld(t, d)) })
}

func newWorld(t testing.TB, d *db.DB) *world {
	t.Helper()
	if _, err := orgfile.Apply(t.Context(), d, seal.NewKey(), core.SystemClock, []byte(servertest.World)); err != nil {
		t.Fatal(err)
	}
	return replica(t, d)
}

// replica is one more process that serves from a database.
func replica(t testing.TB, d *db.DB) *world {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w := &world{DB: d, t: t, bus: bus.New(d, log), metrics: prometheus.NewRegistry(), clock: servertest.NewClock()}
	service := pipelines.New(d, seal.NewKey(), "http://ci.test", w.clock.Now, outbound.New(nil))
	w.builds = lifecycle.New(d, service, "http://ci.test", w.clock.Now, log)
	w.ok(d.Read(t.Context(), func(q *db.Q) (err error) {
		if err := q.QueryRow(`SELECT organization_id FROM pipelines WHERE id = $1`, servertest.AcmePipelineID).Scan(&w.org); err != nil {
			return err
		}
		w.pipeline, err = pipelines.ByID(q, pipelines.System(w.org), servertest.AcmePipelineID)
		return err
	}))
	w.Dispatcher = dispatch.New(d, w.bus, w.clock.Now, log, w.metrics, dispatch.Jobs{Assign: w.assign, AssignedTo: w.builds.AssignedTo, Running: builds.RunningByPipeline, Slugs: pipelines.Slugs})
	return w
}

// run runs a loop until the end of the test.
func (w *world) run(loop func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// assign is how jobs are assigned, unless the test has it fail.
func (w *world) assign(ctx context.Context, orgID, buildID string, offers []flow.Offer) ([]string, error) {
	w.mu.Lock()
	err, before := w.fail, w.before
	w.mu.Unlock()
	if before != nil {
		before()
	}
	if err != nil {
		return nil, err
	}
	return w.builds.Assign(ctx, orgID, buildID, offers)
}

// first reports whether it is asked about a job for the first time.
func (w *world) first(jobID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.done[jobID]
	if w.done == nil {
		w.done = map[string]bool{}
	}
	w.done[jobID] = true
	return first
}

func (w *world) failWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

// build makes a build of steps, each a line of YAML.
func (w *world) build(lines ...string) *builds.Build {
	w.t.Helper()
	return w.buildOf(w.pipeline, lines...)
}

// another adds a pipeline to acme.
func (w *world) another(slug string) (p *pipelines.Pipeline) {
	w.t.Helper()
	file := "organizations: [{slug: acme, pipelines: [{slug: " + slug + ", name: " + slug + ", repository: https://git.example.test/x.git, cluster: Default, configuration: 'steps: [{command: a}]'}]}]"
	_, err := orgfile.Apply(w.t.Context(), w.DB, seal.NewKey(), core.SystemClock, []byte(file))
	w.ok(err)
	w.ok(w.Read(w.t.Context(), func(q *db.Q) (err error) {
		p, err = pipelines.ByID(q, pipelines.System(w.org), w.texts(`SELECT id FROM pipelines WHERE slug = $1`, slug)[0])
		return err
	}))
	return p
}

// buildOf makes a build of a pipeline.
func (w *world) buildOf(pipeline *pipelines.Pipeline, lines ...string) *builds.Build {
	w.t.Helper()
	p := *pipeline
	p.Configuration = "steps:\n  - " + strings.Join(lines, "\n  - ") + "\n"
	b, err := w.builds.Create(w.t.Context(), &p, lifecycle.Creation{Commit: "HEAD", Branch: "main", Source: builds.FromAPI})
	w.ok(err)
	return b
}

// exec changes the database.
func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	w.ok(w.Write(w.t.Context(), func(q *db.Q) error {
		_, err := q.Exec(query, args...)
		return err
	}))
}

// pauseQueue pauses acme's default queue, or resumes it.
func (w *world) pauseQueue(paused bool) {
	w.t.Helper()
	var at any
	if paused {
		at = 1
	}
	w.ok(w.Write(w.t.Context(), func(q *db.Q) error {
		q.Announce(dispatch.Topic(servertest.AcmeQueueID))
		_, err := q.Exec(`UPDATE queues SET dispatch_paused_at = $2 WHERE id = $1`, servertest.AcmeQueueID, at)
		return err
	}))
}

// texts returns the rows of a query.
func (w *world) texts(query string, args ...any) (rows []string) {
	w.t.Helper()
	w.ok(w.Read(w.t.Context(), func(q *db.Q) (err error) {
		rows, err = db.All(q, func(scan db.Scan) (row string, err error) { return row, scan(&row) }, query, args...)
		return err
	}))
	return rows
}

// looks returns how often the dispatcher has scanned the queue in the database.
func (w *world) looks() (n int) {
	w.t.Helper()
	families, err := w.metrics.Gather()
	w.ok(err)
	for _, f := range families {
		if f.GetName() == "stackyard_dispatch_looks_total" {
			n = int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return n
}

// agent returns an agent of acme's default queue.
func (w *world) agent(name string, tags ...string) dispatch.Agent {
	return dispatch.Agent{ID: name, OrganizationID: w.org, QueueID: servertest.AcmeQueueID, Tags: tags, IdleSince: w.clock.Now()}
}

// A wait is an agent that waits in the background.
type wait struct {
	*world
	name string
	job  chan string
	stop context.CancelFunc
}

// wait has an agent wait in the background.
func (w *world) wait(a dispatch.Agent) *wait {
	ctx, cancel := context.WithCancel(w.t.Context())
	waiting := &wait{world: w, name: a.ID, job: make(chan string, 1), stop: cancel}
	go func() {
		job, err := w.Wait(ctx, a)
		if err != nil {
			w.t.Errorf("%s: %v", a.ID, err)
		}
		waiting.job <- job
	}()
	w.t.Cleanup(cancel)
	return waiting
}

// get returns the job that the agent gets.
func (w *wait) get() string {
	w.t.Helper()
	select {
	case job := <-w.job:
		return job
	case <-time.After(30 * time.Second):
		w.t.Fatalf("%s got nothing", w.name)
		return ""
	}
}

// nothing fails the test if there is a job for the agent, and ends the wait.
func (w *wait) nothing() {
	w.t.Helper()
	w.settle()
	w.stop()
	if job := w.get(); job != "" {
		w.t.Errorf("%s got job %s", w.name, job)
	}
}

// now returns the job that an agent gets without having to wait, by the key of its step.
func (w *world) now(a dispatch.Agent) string {
	w.t.Helper()
	return w.key(w.wait(a).get())
}

// key returns the key of the step of a job.
func (w *world) key(jobID string) string {
	w.t.Helper()
	return strings.Join(w.texts(`SELECT s.key FROM jobs j JOIN steps s ON s.id = j.step_id WHERE j.id = $1`, jobID), " ")
}

// waiting blocks until a number of agents wait.
func (w *world) waiting(n int) {
	w.t.Helper()
	for range 30_000 {
		if w.gauge("stackyard_dispatch_waiting_agents") == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatalf("there are not %d agents that wait", n)
}

func (w *world) gauge(name string) int {
	families, err := w.metrics.Gather()
	w.ok(err)
	for _, f := range families {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return 0
}

// settle blocks until nothing is going on in acme's default queue, in which an agent waits.
func (w *world) settle() {
	w.t.Helper()
	for range 30_000 {
		if w.gauge("stackyard_dispatch_waiting_agents") > 0 && w.Settled(servertest.AcmeQueueID) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatal("the queue does not come to rest")
}

// holder returns who holds a job.
func (w *world) holder(jobID string) string {
	w.t.Helper()
	return strings.Join(w.texts(`SELECT COALESCE(agent_id, '') FROM jobs WHERE id = $1`, jobID), "")
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, fmt.Sprint(got), want)
	}
}
