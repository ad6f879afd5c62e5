package servertest

import (
	"net/http"
	"testing"
)

// HelloPath is the path of acme's pipeline hello in the REST API.
const HelloPath = "/v2/organizations/acme/pipelines/hello"

// A RunningBuild is a scenario in which an agent runs the first job of a build of hello. Its Client sends the
// token of that job.
type RunningBuild struct {
	*Scenario
	Agent *Agent
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
	b := &RunningBuild{Scenario: s.Scenario(t), Agent: s.Register(t, nil)}
	if len(steps) > 0 {
		b.Steps(steps...)
	}
	build, job := b.CreateBuild()
	b.Build, b.Job = build, b.Agent.Acquire(job).Start()
	return b
}

// Show returns the build from the REST API.
func (b *RunningBuild) Show() *Response {
	b.T.Helper()
	return b.Ada.Get(HelloPath + "/builds/" + b.Build).Want(http.StatusOK)
}
