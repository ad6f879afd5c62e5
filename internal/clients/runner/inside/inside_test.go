package inside

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/clients/runner/environ"
)

func TestFromEnvironment_ReadsEitherNameOfAVariable(t *testing.T) {
	job, err := FromEnvironment(environ.Environment{"BUILDKITE_AGENT_ENDPOINT": "http://ci.test/v3/", "SERVICE_AGENT_ACCESS_TOKEN": "t", "BUILDKITE_JOB_ID": "j", "SERVICE_BUILD_ID": "b", "SERVICE_STEP_ID": "s"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	if job.API.Endpoint() != "http://ci.test/v3" || job.API.Token() != "t" || job.ID != "j" || job.BuildID != "b" || job.StepID != "s" {
		t.Errorf("got %+v", job)
	}
	if err := job.Redact(t.Context(), "x"); err != nil {
		t.Errorf("without an agent of ours: %v", err)
	}
}

func TestFromEnvironment_FailsOutsideAJob(t *testing.T) {
	_, err := FromEnvironment(environ.Environment{"SERVICE_AGENT_ENDPOINT": "http://ci.test/v3"}, "1")
	if err == nil || !strings.Contains(err.Error(), "inside a job; SERVICE_AGENT_ACCESS_TOKEN is not set") {
		t.Errorf("got %v", err)
	}
}

func TestRedact_ReachesTheAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "inside") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "agent.sock")
	var mu sync.Mutex
	var got []string
	stop, err := Serve(socket, Agent{Redact: func(value string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, value)
	}})
	if err != nil {
		t.Fatal(err)
	}
	job, err := FromEnvironment(environ.Environment{"SERVICE_AGENT_ENDPOINT": "x", "SERVICE_AGENT_ACCESS_TOKEN": "t", "SERVICE_" + SocketVariable: socket}, "1")
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Redact(t.Context(), "hunter2"); err != nil {
		t.Fatal(err)
	}
	if err := Redact(t.Context(), socket, "one", "two\nlines"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got, []string{"hunter2", "one", "two\nlines"}) {
		t.Errorf("got %q", got)
	}
	stop()
	if err := job.Redact(t.Context(), "late"); err == nil {
		t.Error("it reached an agent that has gone")
	}
}
