package servertest

import (
	"net/http"
	"testing"
)

// An Agent is a registered and connected agent. Its client sends the session token.
type Agent struct {
	*Client
	ID    string
	Name  string
	Token string
}

// Register registers and connects an agent with AcmeAgent. fields are added to those that every agent sends.
func (s *Server) Register(t testing.TB, fields map[string]any) *Agent {
	t.Helper()
	said := map[string]any{"name": "%hostname-1", "hostname": "host", "os": "ID=debian\n", "arch": "amd64", "version": "3.75.1", "build": "1", "meta_data": []string{}, "features": []string{}}
	for name, value := range fields {
		said[name] = value
	}
	resp := s.AsAgent(t, AcmeAgent).Post("/v3/register", said).Want(http.StatusOK)
	a := &Agent{ID: resp.String("id"), Name: resp.String("name"), Token: resp.String("access_token")}
	a.Client = s.AsAgent(t, a.Token)
	a.Post("/v3/connect", nil).Want(http.StatusOK)
	return a
}

// A Job is a job of an agent. Its client sends the job's token.
type Job struct {
	*Client
	ID  string
	Env map[string]string
}

// Path returns a path below the job's.
func (j *Job) Path(rest string) string { return "/v3/jobs/" + j.ID + rest }

// Acquire makes the agent acquire a job.
func (a *Agent) Acquire(id string) *Job {
	a.t.Helper()
	return a.took(a.Put("/v3/jobs/"+id+"/acquire", nil))
}

// Accept makes the agent accept the job that it was offered.
func (a *Agent) Accept(id string) *Job {
	a.t.Helper()
	return a.took(a.Put("/v3/jobs/"+id+"/accept", nil))
}

func (a *Agent) took(resp *Response) *Job {
	a.t.Helper()
	var job struct {
		ID, Token string
		Env       map[string]string
	}
	resp.Want(http.StatusOK).JSON(&job)
	return &Job{Client: a.s.AsAgent(a.t, job.Token), ID: job.ID, Env: job.Env}
}

// Start reports that the job has started.
func (j *Job) Start() *Job {
	j.t.Helper()
	j.Put(j.Path("/start"), map[string]any{"started_at": "2026-01-02T03:04:05.123456789Z"}).Want(http.StatusOK)
	return j
}

// Finish reports that the job has finished.
func (j *Job) Finish(exitStatus string) {
	j.t.Helper()
	j.Put(j.Path("/finish"), map[string]any{"exit_status": exitStatus, "finished_at": "2026-01-02T03:04:06Z", "chunks_failed_count": 0}).Want(http.StatusOK)
}
