package joblog_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/blob/blobtest"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// A world has logs in a place for blobs, and jobs that print them. Its services are those of one replica;
// the server beside them is another one.
type world struct {
	*servertest.Server
	t      testing.TB
	blobs  *blob.Store
	logs   *joblog.Service
	bus    *bus.Bus
	runner *tasks.Runner
	builds *builds.Service
	orgID  string
}

// each runs a test in a fresh world on each engine.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, newWorld(t, s, s.Blobs)) })
}

// eachStore runs a test in a fresh world on each engine, with each kind of place for blobs.
func eachStore(t *testing.T, fn func(t *testing.T, w *world)) {
	blobtest.Each(t, func(t *testing.T, blobs *blob.Store) {
		servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, newWorld(t, s, blobs)) })
	})
}

func newWorld(t testing.TB, s *servertest.Server, blobs *blob.Store) *world {
	t.Helper()
	public, log := core.PublicURL(s.URL), slog.New(slog.DiscardHandler)
	w := &world{Server: s, t: t, blobs: blobs, bus: bus.New(s.DB, log)}
	w.builds = builds.New(s.DB, pipelines.New(s.DB, s.Key, public, s.Clock.Now, outbound.New(nil)), public, s.Clock.Now, log)
	w.logs = joblog.New(s.DB, blobs, w.bus, w.builds, public, s.Clock.Now, log)
	w.builds.AddEffect(w.logs.Observe)
	w.runner = tasks.New(s.DB, w.bus, s.Clock.Now, log, prometheus.NewRegistry())
	w.logs.Background(w.runner)
	err := s.DB.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT id FROM organizations WHERE slug = 'acme'`).Scan(&w.orgID)
	})
	w.ok(err)
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// someAgent is the id of an agent, where it does not matter which.
const someAgent = "0190c0de-0000-7000-8000-0000000000b1"

// run makes a build of hello, whose only job begins to run.
func (w *world) run() joblog.Job {
	w.t.Helper()
	build := w.As(w.t, servertest.Ada).Post("/v2/organizations/acme/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	job := joblog.Job{OrganizationID: w.orgID, PipelineID: servertest.AcmePipelineID, BuildID: build.String("id"), ID: build.String("jobs.0.id")}
	w.ok(w.builds.Acquire(context.Background(), w.orgID, job.ID, someAgent))
	w.ok(w.builds.Accept(context.Background(), w.orgID, job.ID, someAgent))
	w.ok(w.builds.Start(context.Background(), w.orgID, job.ID, someAgent))
	return job
}

// end finishes a job.
func (w *world) end(job joblog.Job) {
	w.t.Helper()
	w.ok(w.builds.Finish(context.Background(), w.orgID, job.ID, someAgent, flow.Exit{}, ""))
}

// add adds a chunk to the log of a job.
func (w *world) add(job joblog.Job, offset int64, text string) {
	w.t.Helper()
	w.ok(w.logs.Append(context.Background(), job, joblog.Chunk{Sequence: offset, Offset: offset}, []byte(text)))
}

// runDue does the tasks that are due.
func (w *world) runDue() {
	w.t.Helper()
	w.ok(w.runner.RunDue(context.Background()))
}

func (w *world) open(job joblog.Job) *joblog.Log {
	w.t.Helper()
	l, err := w.logs.Open(context.Background(), job)
	w.ok(err)
	return l
}

// part returns a range of a log.
func (w *world) part(l *joblog.Log, from, to int64) string {
	w.t.Helper()
	var b bytes.Buffer
	w.ok(l.Copy(context.Background(), &b, from, to))
	return b.String()
}

// wantContent fails the test unless a log is as it should be, the size that it tells included.
func (w *world) wantContent(job joblog.Job, want string) {
	w.t.Helper()
	l := w.open(job)
	got := w.part(l, 0, l.Size)
	if got != want {
		w.t.Errorf("the log is %.300q, want %.300q", got, want)
	}
	if l.Size != int64(len(got)) {
		w.t.Errorf("the log says that it has %d bytes, but has %d", l.Size, len(got))
	}
}

// keys returns how many objects there are of a log.
func (w *world) keys(job joblog.Job) (n int) {
	w.t.Helper()
	for _, err := range w.blobs.List(context.Background(), job.Prefix()) {
		w.ok(err)
		n++
	}
	return n
}
