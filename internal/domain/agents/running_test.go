package agents_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/rules/flow"
)

const hello = "/v2/organizations/acme/pipelines/hello"

type (
	fields   = map[string]any
	response = servertest.Response
)

// running is a server on which an agent runs a job of a build of acme's pipeline hello.
type running struct {
	*servertest.Server
	t       *testing.T
	ada     *servertest.Client
	agent   *servertest.Agent
	service *builds.Service
	orgID   string

	build string // its id
	job   string // the one that runs
	*servertest.Client
}

// whileRunning runs a test on each engine, while the first job of a build with these steps, each a line
// of YAML, runs.
func whileRunning(t *testing.T, steps []string, fn func(t *testing.T, w *running)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, run(t, s, steps...)) })
}

// run has an agent run the first job of a build with these steps; with none, of those that hello has.
func run(t *testing.T, s *servertest.Server, steps ...string) *running {
	t.Helper()
	w := &running{Server: s, t: t, ada: s.As(t, servertest.Ada), agent: s.Register(t, nil)}
	public := core.PublicURL(s.URL)
	w.service = builds.New(s.DB, pipelines.New(s.DB, s.Key, public, s.Clock.Now, outbound.New(nil)), public, s.Clock.Now, slog.New(slog.DiscardHandler))
	w.ok(s.DB.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT id FROM organizations WHERE slug = 'acme'`).Scan(&w.orgID)
	}))
	if len(steps) > 0 {
		w.ada.Patch(hello, fields{"configuration": "steps:\n  - " + strings.Join(steps, "\n  - ") + "\n"}).Want(http.StatusOK)
	}
	w.build, w.job = w.create()
	w.Client = w.take(w.job)
	return w
}

// create makes a build of hello, and returns its id and that of its first job.
func (w *running) create() (build, job string) {
	w.t.Helper()
	made := w.ada.Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	return made.String("id"), made.String("jobs.0.id")
}

// take has the agent run a job, and returns who speaks for it.
func (w *running) take(job string) *servertest.Client {
	w.t.Helper()
	ctx := w.t.Context()
	w.ok(w.service.Acquire(ctx, w.orgID, job, w.agent.ID))
	w.ok(w.service.Start(ctx, w.orgID, job, w.agent.ID))
	return w.AsAgent(w.t, agents.IssueJobToken(w.Key, w.orgID, w.agent.ID, job))
}

// end ends a job.
func (w *running) end(job string, status int) {
	w.t.Helper()
	w.ok(w.service.Finish(w.t.Context(), w.orgID, job, w.agent.ID, flow.Exit{Status: status}, ""))
}

func (w *running) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// path is a path below that of the job.
func (w *running) path(rest string) string { return "/v3/jobs/" + w.job + rest }

// now is the build as people see it.
func (w *running) now() *servertest.Response {
	w.t.Helper()
	return w.ada.Get(hello + "/builds/" + w.build).Want(http.StatusOK)
}

func wantAt(t testing.TB, r *servertest.Response, want fields) {
	t.Helper()
	for path, value := range want {
		if got := r.At(path); fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("%s is %v, want %v", path, got, value)
		}
	}
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
