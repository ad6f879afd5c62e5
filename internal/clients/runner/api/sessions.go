package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// A SessionRequest is a remote session that a user wants to open into a job.
type SessionRequest struct {
	ID            string `json:"id"`
	Kind          string `json:"kind"` // ssh or vnc
	AuthorizedKey string `json:"authorized_key"`
	Password      string `json:"password"`
}

// Sessions waits for remote sessions into a job. It returns none when there was none for a while. It is not retried,
// since it is repeated anyway.
func (c *Client) Sessions(ctx context.Context, jobID string) ([]SessionRequest, error) {
	var answer struct {
		Sessions []SessionRequest `json:"sessions"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: path("jobs", jobID, "sessions"), answer: &answer})
	return answer.Sessions, err
}

// RefuseSession says that the agent cannot open a session.
func (c *Client) RefuseSession(ctx context.Context, jobID, id string, unsupported bool, message string) error {
	body := struct {
		Unsupported bool   `json:"unsupported"`
		Message     string `json:"message"`
	}{unsupported, message}
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "sessions", id, "refuse"), body: body, retry: retry{tries: 3, wait: growing(time.Second, time.Second)}})
}

// An Offer is what an agent says of itself when it connects its end of a session.
type Offer struct {
	Username string
	HostKey  string // in the format of authorized_keys; "" for a desktop
}

// OfferSession connects the agent's end of a session. The text message "start" says that the user has connected.
func (c *Client) OfferSession(ctx context.Context, jobID, id string, o Offer) (*websocket.Conn, error) {
	header := http.Header{
		"Authorization":              {"Token " + c.token},
		"User-Agent":                 {c.userAgent},
		"Stackyard-Session-Username": {o.Username},
	}
	if o.HostKey != "" {
		header.Set("Stackyard-Session-Host-Key", o.HostKey)
	}
	name := path("jobs", jobID, "sessions", id, "tunnel")
	conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.endpoint, "http")+name, &websocket.DialOptions{
		HTTPClient:   c.http,
		HTTPHeader:   header,
		Subprotocols: []string{"stackyard.tunnel"},
	})
	if err == nil {
		conn.SetReadLimit(maxTunnelMessage)
		return conn, nil
	}
	failed := &Error{Call: "GET " + name, Err: err}
	if resp != nil {
		failed.Status = resp.StatusCode
	}
	return nil, failed
}

// maxTunnelMessage bounds a message of a tunnel.
const maxTunnelMessage = 1 << 20
