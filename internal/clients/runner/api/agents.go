package api

import (
	"context"
	"net/http"
	"time"
)

// A Registration is what an agent tells about itself.
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
	// ScriptEval says that the agent runs commands, not only scripts of the repository.
	ScriptEval bool `json:"script_eval_enabled"`
	// SingleJob says that the agent was started for one job and wants no other.
	SingleJob bool `json:"ignore_in_dispatches"`
}

// A Session is what a registered agent gets.
type Session struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	AccessToken       string `json:"access_token"`
	PingInterval      int    `json:"ping_interval"`       // in seconds
	JobStatusInterval int    `json:"job_status_interval"` // in seconds
	HeartbeatInterval int    `json:"heartbeat_interval"`  // in seconds
}

// Register registers an agent; the client has the agent token.
func (c *Client) Register(ctx context.Context, r Registration) (Session, error) {
	var s Session
	err := c.do(ctx, call{method: http.MethodPost, path: "/register", body: r, answer: &s,
		retry: retry{tries: 30, wait: growing(time.Second, 10*time.Second)}})
	return s, err
}

// Connect says that the agent is there. All failures are repeated: the session is as new as can be.
func (c *Client) Connect(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/connect",
		retry: retry{tries: 10, wait: growing(time.Second, 5*time.Second), again: always}})
}

// Disconnect says that the agent goes.
func (c *Client) Disconnect(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/disconnect",
		retry: retry{tries: 4, wait: growing(time.Second, time.Second), again: always}})
}

// Heartbeat says that the agent is alive.
func (c *Client) Heartbeat(ctx context.Context, now time.Time) error {
	sent := struct {
		SentAt time.Time `json:"sent_at"`
	}{now}
	var received struct{}
	return c.do(ctx, call{method: http.MethodPost, path: "/heartbeat", body: sent, answer: &received,
		retry: retry{tries: 10, wait: growing(time.Second, 5*time.Second)}})
}

// An Action is what a server wants of an agent.
type Action string

// The actions. Any other word is as good as none.
const (
	Idle       Action = ""
	Pause      Action = "pause"
	Disconnect Action = "disconnect"
)

// An Order is what a server wants an agent to do now.
type Order struct {
	Action  Action
	JobID   string // a job to accept; "" when there is none
	Message string // for people who read the agent's log
}

// Ping asks for an order. It is tried once: the next ping is the next try.
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
