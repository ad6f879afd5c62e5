package servertest

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/outbound"
)

// A Scenario is a server with World, with what most tests need: Ada, an administrator of acme, builds of its
// pipeline hello, and direct access to the database. Packages embed it and add their own steps:
//
//	sc := s.Scenario(t)
//	sc.Steps("command: make", "wait", "command: make deploy")
//	_, job := sc.CreateBuild()
//	sc.StartJob(job).Finish("0")
type Scenario struct {
	*Server
	T     testing.TB
	Ada   *Client
	OrgID string // of acme
}

// Scenario returns the server as a scenario of a test.
func (s *Server) Scenario(t testing.TB) *Scenario {
	t.Helper()
	return &Scenario{Server: s, T: t, Ada: s.As(t, Ada), OrgID: s.OrganizationID(t, "acme")}
}

// Steps replaces the steps of hello. Each step is a line of YAML.
func (sc *Scenario) Steps(steps ...string) {
	sc.T.Helper()
	configuration := "steps:\n  - " + strings.Join(steps, "\n  - ") + "\n"
	sc.Ada.Patch(HelloPath, map[string]any{"configuration": configuration}).Want(http.StatusOK)
}

// CreateBuild creates a build of hello and returns its id and the id of its first job.
func (sc *Scenario) CreateBuild() (build, job string) {
	sc.T.Helper()
	created := sc.Ada.Post(HelloPath+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	return created.String("id"), created.String("jobs.0.id")
}

// StartJob makes a new agent run a job.
func (sc *Scenario) StartJob(id string) *Job {
	sc.T.Helper()
	return sc.Register(sc.T, nil).Acquire(id).Start()
}

// QueryRow reads one value from the database into dst.
func (sc *Scenario) QueryRow(query string, dst any, args ...any) {
	sc.T.Helper()
	sc.WantNoError(sc.DB.Read(sc.T.Context(), func(q *db.Q) error { return q.QueryRow(query, args...).Scan(dst) }))
}

// WantNoError ends the test if there is an error.
func (sc *Scenario) WantNoError(err error) {
	sc.T.Helper()
	if err != nil {
		sc.T.Fatal(err)
	}
}

// Builds returns another builds service on the server's database, for calls that the API does not allow.
func (s *Server) Builds() *lifecycle.Service {
	public := core.PublicURL(s.URL)
	return lifecycle.New(s.DB, pipelines.New(s.DB, s.Key, public, s.Clock.Now, outbound.New(nil)), public, s.Clock.Now, slog.New(slog.DiscardHandler))
}
