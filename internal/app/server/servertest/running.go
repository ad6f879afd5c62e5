package servertest

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/outbound"
)

// HelloPath is the path of acme's pipeline hello in the REST API.
const HelloPath = "/v2/organizations/acme/pipelines/hello"

// A RunningBuild is a server on which an agent runs the first job of a build of acme's pipeline hello. Its
// Client sends the token of that job.
type RunningBuild struct {
	*Server
	T     testing.TB
	Ada   *Client
	Agent *Agent
	OrgID string // of acme
	Build string // id of the build
	*Job
}

// EachRunning runs a test against a fresh server on each engine, while the first job of a build with these
// steps runs. Each step is a line of YAML; nil keeps the steps of hello.
func EachRunning(t *testing.T, steps []string, fn func(t *testing.T, b *RunningBuild)) {
	Each(t, func(t *testing.T, s *Server) { fn(t, s.RunBuild(t, steps...)) })
}

// RunBuild creates a build with these steps, each a line of YAML, and has an agent run its first job.
func (s *Server) RunBuild(t testing.TB, steps ...string) *RunningBuild {
	t.Helper()
	b := &RunningBuild{Server: s, T: t, Ada: s.As(t, Ada), Agent: s.Register(t, nil)}
	err := s.DB.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT id FROM organizations WHERE slug = 'acme'`).Scan(&b.OrgID)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) > 0 {
		configuration := "steps:\n  - " + strings.Join(steps, "\n  - ") + "\n"
		b.Ada.Patch(HelloPath, map[string]any{"configuration": configuration}).Want(http.StatusOK)
	}
	build, job := b.CreateBuild()
	b.Build, b.Job = build, b.Agent.Acquire(job).Start()
	return b
}

// CreateBuild creates another build of hello and returns its id and the id of its first job.
func (b *RunningBuild) CreateBuild() (build, job string) {
	b.T.Helper()
	created := b.Ada.Post(HelloPath+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	return created.String("id"), created.String("jobs.0.id")
}

// Builds returns another builds service on the server's database, for calls that the API does not allow.
func (s *Server) Builds() *builds.Service {
	public := core.PublicURL(s.URL)
	return builds.New(s.DB, pipelines.New(s.DB, s.Key, public, s.Clock.Now, outbound.New(nil)), public, s.Clock.Now, slog.New(slog.DiscardHandler))
}

// StartJob makes a new agent run another job.
func (b *RunningBuild) StartJob(id string) *Job {
	b.T.Helper()
	return b.Register(b.T, nil).Acquire(id).Start()
}

// Show returns the build from the REST API.
func (b *RunningBuild) Show() *Response {
	b.T.Helper()
	return b.Ada.Get(HelloPath + "/builds/" + b.Build).Want(http.StatusOK)
}

// WantNoError ends the test if there is an error.
func (b *RunningBuild) WantNoError(err error) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
}
