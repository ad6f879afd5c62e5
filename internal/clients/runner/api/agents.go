package api

import (
	"context"
	"net/http"
	"time"
)

// A Registration describes an agent.
type Registration struct {
	Name     string   `json:"name"`
	Hostname string   `json:"hostname"`
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Version  string   `json:"version"`
	Build    string   `json:"build"`
	Tags     []string `json:"meta_data"`
	Features []string `json:"features"`
	Priority string   `json:"priority,omitempty"`
	PID      int      `json:"pid,omitempty"`
	// ScriptEval is set if the agent runs commands, not only scripts of the repository.
	ScriptEval bool `json:"script_eval_enabled"`
	// SingleJob is set if the agent was started for one job and takes no other.
	SingleJob bool `json:"ignore_in_dispatches"`
}

// A Session is the result of a registration.
type Session struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	AccessToken       string `json:"access_token"`
	PingInterval      int    `json:"ping_interval"`       // in seconds
	JobStatusInterval int    `json:"job_status_interval"` // in seconds
	HeartbeatInterval int    `json:"heartbeat_interval"`  // in seconds
}

// Register registers an agent. The client must use the agent token.
func (c *Client) Register(ctx context.Context, r Registration) (Session, error) {
	var s Session
	err := c.do(ctx, call{method: http.MethodPost, path: "/register", body: r, answer: &s,
		retry: retry{tries: 30, wait: growing(time.Second, 10*time.Second)}})
	return s, err
}

// Connect marks the agent as connected. It retries after every failure, since the session is new.
func (c *Client) Connect(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/connect",
		retry: retry{tries: 10, wait: growing(time.Second, 5*time.Second), again: always}})
}

// Disconnect marks the agent as disconnected.
func (c *Client) Disconnect(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/disconnect",
		retry: retry{tries: 4, wait: growing(time.Second, time.Second), again: always}})
}

// Heartbeat reports that the agent is alive.
func (c *Client) Heartbeat(ctx context.Context, now time.Time) error {
	sent := struct {
		SentAt time.Time `json:"sent_at"`
	}{now}
	var received struct{}
	return c.do(ctx, call{method: http.MethodPost, path: "/heartbeat", body: sent, answer: &received,
		retry: retry{tries: 10, wait: growing(time.Second, 5*time.Second)}})
}

// An Action is a server's instruction to an agent.
type Action string

// The actions. Any other value means none.
const (
	Idle       Action = ""
	Pause      Action = "pause"
	Disconnect Action = "disconnect"
)

// An Order is an instruction of the server with an optional job and message.
type Order struct {
	Action  Action
	JobID   string // a job to accept; "" when there is none
	Message string // for the agent's log
}

// Ping polls for an order. It is not retried, since the next ping follows anyway.
func (c *Client) Ping(ctx context.Context) (Order, error) {
	var answer struct {
		Action  Action `json:"action"`
		Message string `json:"message"`
		Job     *struct {
			ID string `json:"id"`
		} `json:"job"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: "/ping", answer: &answer})
	order := Order{Action: answer.Action, Message: answer.Message}
	if answer.Job != nil {
		order.JobID = answer.Job.ID
	}
	return order, err
}
