package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"stackyard/internal/clients/runner"
)

// A RealJob is a job that a real agent runs, in an organization that allows remote sessions into it.
type RealJob struct {
	*Scenario
	ID string
	// EndAgent cancels the job and waits for the agent.
	EndAgent func()
}

// realWait limits how long a RealJob takes to start.
const realWait = time.Minute

// RealJob creates a build with a command, which runs on an agent that calls the server at an address.
func (s *Server) RealJob(t testing.TB, address, command string, change ...func(*runner.Options)) *RealJob {
	t.Helper()
	s.Apply("organizations: [{slug: acme, features: {self_hosted_sessions: true}}]")
	j := &RealJob{Scenario: s.Scenario(t)}
	j.Ada.Put("/v2/organizations/acme/pipeline-settings/hosted-agents-ssh", nil).Want(http.StatusOK)
	j.Steps(fmt.Sprintf(`{command: %q, env: {GREETING: "hello there", SERVICE_SKIP_CHECKOUT: "true"}}`, command))
	_, j.ID = j.CreateBuild()
	j.RunAgent(address, change...)
	for end := time.Now().Add(realWait); j.Show().String("state") != "running"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the job does not run")
		}
	}
	return j
}

// RunAgent starts an agent for the job.
func (j *RealJob) RunAgent(address string, change ...func(*runner.Options)) {
	j.T.Helper()
	options := runner.Options{
		Endpoint: address + "/v3", Token: AcmeAgent, Version: "test", Name: "agent", Spawn: 1,
		AcquireJob: j.ID, BuildPath: j.T.TempDir(), Shell: []string{"/bin/bash", "-e", "-c"}, CancelGrace: time.Second,
		Executable: "/bin/true", Log: slog.New(slog.DiscardHandler),
	}
	for _, change := range change {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx, context.Background(), options) }()
	j.EndAgent = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	j.T.Cleanup(j.EndAgent)
}

// Show returns the job from the REST API.
func (j *RealJob) Show() *Response {
	j.T.Helper()
	return j.Ada.Get("/v2/organizations/acme/jobs/" + j.ID).Want(http.StatusOK)
}
