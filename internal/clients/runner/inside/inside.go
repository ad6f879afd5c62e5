package inside

import (
	"context"
	"encoding/json"
	"fmt"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/environ"
)

// A Job is the job that a command runs in, according to its variables.
type Job struct {
	API     *api.Client
	ID      string
	BuildID string
	StepID  string
	socket  string
	signs   bool
}

// FromEnvironment returns the job of an environment.
func FromEnvironment(env environ.Environment, version string) (*Job, error) {
	for _, name := range []string{"AGENT_ENDPOINT", "AGENT_ACCESS_TOKEN"} {
		if env.Service(name) == "" {
			return nil, fmt.Errorf("this command only works inside a job; SERVICE_%s is not set", name)
		}
	}
	return &Job{
		API:     api.New(env.Service("AGENT_ENDPOINT"), env.Service("AGENT_ACCESS_TOKEN"), version),
		ID:      env.Service("JOB_ID"),
		BuildID: env.Service("BUILD_ID"),
		StepID:  env.Service("STEP_ID"),
		socket:  env.Service(SocketVariable),
		signs:   env.Service(SignsVariable) == "true",
	}, nil
}

// Redact makes the agent redact a value in the job's log. It does nothing for an agent without a socket, like
// the published one, which has its own way.
func (j *Job) Redact(ctx context.Context, value string) error {
	if j.socket == "" {
		return nil
	}
	return Redact(ctx, j.socket, value)
}

// Sign makes the agent sign the steps of a pipeline, if it does that, and returns the pipeline.
func (j *Job) Sign(ctx context.Context, pipeline json.RawMessage) (json.RawMessage, error) {
	if j.socket == "" || !j.signs {
		return pipeline, nil
	}
	return Sign(ctx, j.socket, pipeline)
}
