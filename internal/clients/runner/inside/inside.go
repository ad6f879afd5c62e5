package inside

import (
	"context"
	"fmt"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/environ"
)

// A Job is the job that a command runs inside of, as far as its variables tell.
type Job struct {
	API     *api.Client
	ID      string
	BuildID string
	StepID  string
	socket  string
}

// Here returns the job that an environment belongs to.
func Here(env environ.Environment, version string) (*Job, error) {
	endpoint, token := env.Service("AGENT_ENDPOINT"), env.Service("AGENT_ACCESS_TOKEN")
	for name, value := range map[string]string{"AGENT_ENDPOINT": endpoint, "AGENT_ACCESS_TOKEN": token} {
		if value == "" {
			return nil, fmt.Errorf("this command only works inside a job; SERVICE_%s is not set", name)
		}
	}
	return &Job{
		API:     api.New(endpoint, token, version),
		ID:      env.Service("JOB_ID"),
		BuildID: env.Service("BUILD_ID"),
		StepID:  env.Service("STEP_ID"),
		socket:  env.Service(SocketVariable),
	}, nil
}

// KeepOutOfLog makes the job's agent keep a value out of the job's log. An agent without a socket, such as
// the published one, has ways of its own.
func (j *Job) KeepOutOfLog(ctx context.Context, value string) error {
	if j.socket == "" {
		return nil
	}
	return Redact(ctx, j.socket, value)
}
