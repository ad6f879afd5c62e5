package joblog_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/blob/blobtest"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// A fixture is a scenario with jobs that print logs. Its services are those of one replica; its server is another
// one.
type fixture struct {
	*servertest.Scenario
	blobs  *blob.Store
	logs   *joblog.Service
	bus    *bus.Bus
	runner *tasks.Runner
	builds *lifecycle.Service
}

// each runs a test with a fresh fixture on each engine.
func each(t *testing.T, fn func(t *testing.T, w *fixture)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, newFixture(t, s, s.Blobs)) })
}

// eachStore runs a test with a fresh fixture on each engine and with each kind of blob store. No bytes of logs are in
// the database.
func eachStore(t *testing.T, fn func(t *testing.T, w *fixture)) {
	blobtest.Each(t, func(t *testing.T, blobs *blob.Store) {
		servertest.Each(t, func(t *testing.T, s *servertest.Server) {
			w := newFixture(t, s, blobs)
			w.logs.SetSmall(0)
			fn(t, w)
		})
	})
}

func newFixture(t testing.TB, s *servertest.Server, blobs *blob.Store) *fixture {
	t.Helper()
	public, log := core.PublicURL(s.URL), slog.New(slog.DiscardHandler)
	w := &fixture{Scenario: s.Scenario(t), blobs: blobs, bus: bus.New(s.DB, log), builds: s.Builds()}
	w.logs = joblog.New(s.DB, blobs, w.bus, w.builds.Reader, public, s.Clock.Now, log)
	w.builds.AddEffect(w.logs.Observe)
	w.runner = tasks.New(s.DB, w.bus, s.Clock.Now, log, prometheus.NewRegistry())
	w.logs.Background(w.runner)
	return w
}

// someAgent is the id of any agent.
const someAgent = "0190c0de-0000-7000-8000-0000000000b1"

// run creates a build of hello and starts its only job.
func (w *fixture) run() joblog.Job {
	w.T.Helper()
	build, id := w.CreateBuild()
	job := joblog.Job{OrganizationID: w.OrgID, PipelineID: servertest.AcmePipelineID, BuildID: build, ID: id}
	w.WantNoError(w.builds.Acquire(context.Background(), w.OrgID, job.ID, someAgent))
	w.WantNoError(w.builds.Accept(context.Background(), w.OrgID, job.ID, someAgent))
	w.WantNoError(w.builds.Start(context.Background(), w.OrgID, job.ID, someAgent))
	return job
}

// end finishes a job.
func (w *fixture) end(job joblog.Job) {
	w.T.Helper()
	w.WantNoError(w.builds.Finish(context.Background(), w.OrgID, job.ID, someAgent, flow.Exit{}, ""))
}

// add adds a chunk to the log of a job.
func (w *fixture) add(job joblog.Job, offset int64, text string) {
	w.T.Helper()
	w.WantNoError(w.logs.Append(context.Background(), job, joblog.Chunk{Sequence: offset, Offset: offset}, []byte(text)))
}

// runDue runs the tasks that are due.
func (w *fixture) runDue() {
	w.T.Helper()
	w.WantNoError(w.runner.RunDue(context.Background()))
}

func (w *fixture) open(job joblog.Job) *joblog.Log {
	w.T.Helper()
	l, err := w.logs.Open(context.Background(), job)
	w.WantNoError(err)
	return l
}

// part returns a range of a log.
func (w *fixture) part(l *joblog.Log, from, to int64) string {
	w.T.Helper()
	var b bytes.Buffer
	w.WantNoError(l.Copy(context.Background(), &b, from, to))
	return b.String()
}

// wantContent fails the test unless a log has a content and its size.
func (w *fixture) wantContent(job joblog.Job, want string) {
	w.T.Helper()
	l := w.open(job)
	got := w.part(l, 0, l.Size)
	if got != want {
		w.T.Errorf("the log is %.300q, want %.300q", got, want)
	}
	if l.Size != int64(len(got)) {
		w.T.Errorf("the log says that it has %d bytes, but has %d", l.Size, len(got))
	}
}

// keys returns the number of objects of a log.
func (w *fixture) keys(job joblog.Job) (n int) {
	w.T.Helper()
	for _, err := range w.blobs.List(context.Background(), job.Prefix()) {
		w.WantNoError(err)
		n++
	}
	return n
}
