// Package remoteaccess opens remote sessions into running jobs: a shell (SSH) or a desktop (VNC).
//
// A session is a tunnel through this server between a user and the agent of a job. Both connect to the server with a
// WebSocket, so neither has to be reachable. It is opened in this order:
//
//  1. The user requests a session (open.go). The preconditions are checked (gate.go), and a row is written.
//  2. The agent, which waits for such rows, connects its end of the tunnel (agent_http.go). For a shell it creates a
//     host key and reports the public part.
//  3. The user gets the credentials: a token that can be used once, and a key or a password. They exist only in this
//     response; the row has the hash of the token and public keys.
//  4. The user connects with the token (user_http.go), and bytes flow (tunnel.go).
//
// The two ends can be at different replicas. The row names the replica with the agent's end, and the other one connects
// to it (peer.go). The replica with the agent's end supervises the session: it ends with the job, with the user's
// access, with the organization's setting, and after [MaxLength].
//
// Package remoteaccess does not start processes in jobs; the agent does.
package remoteaccess

import (
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"stackyard/internal/domain/account"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

const (
	// TokenLife is how long a user has to connect.
	TokenLife = 5 * time.Minute
	// MaxLength is how long a session can last.
	MaxLength = 4 * time.Hour
	// maxLive is how many sessions a job can have at once.
	maxLive = 10
	// lease is how long a session lasts after its replica has died; the replica renews it.
	lease, renewEvery = 90 * time.Second, 20 * time.Second
	// keepFor is how long the record of a session is kept.
	keepFor = 90 * 24 * time.Hour
)

// Service opens sessions and relays their bytes.
type Service struct {
	Parts
	peers   seal.Signer // authenticates replicas to each other
	vncKeys seal.Signer // derives passwords of desktops
	// openTimeout is how long an agent has to connect.
	openTimeout time.Duration

	mu       sync.Mutex
	ends     map[string]*agentEnd // agents' ends at this replica, by session
	open     sync.WaitGroup       // tunnels
	draining chan struct{}        // closed when the server drains
}

// Parts are the dependencies of a Service.
type Parts struct {
	DB        *db.DB
	Directory *identity.Directory
	Bus       *bus.Bus
	Agents    *agents.Service
	Builds    *builds.Reader
	Events    *events.Service
	Key       seal.Key
	Public    core.PublicURL
	// Peer is the URL at which other replicas reach this one.
	Peer string
	// PeerTLS is how to connect to other replicas over https; nil: as to any other server.
	PeerTLS *tls.Config
	Clock   core.Clock
	Log     *slog.Logger
}

// New returns a Service.
func New(p Parts) *Service {
	return &Service{
		Parts:       p,
		peers:       p.Key.Signer("remote access peers"),
		vncKeys:     p.Key.Signer("remote access desktops"),
		openTimeout: 15 * time.Second,
		ends:        map[string]*agentEnd{},
		draining:    make(chan struct{}),
	}
}

// Background registers periodic work.
func (s *Service) Background(r *tasks.Runner) {
	r.Sweep("remote-session-expiry", time.Minute, s.endExpired)
	r.Sweep("remote-session-removal", 6*time.Hour, s.removeOld)
}

// A Kind is what a session shows.
type Kind string

// The kinds.
const (
	Shell   Kind = "ssh"
	Desktop Kind = "vnc"
)

// A State is how far a session is.
type State string

// The states.
const (
	Requested State = "requested" // the agent has not connected yet
	Ready     State = "ready"     // the agent has connected, the user has not
	Connected State = "connected"
	Ended     State = "ended"
	Refused   State = "refused" // by the agent
)

// An Opener opens sessions.
type Opener struct {
	identity.User
	With account.Credential // the sessions end with it
}

// A Session is the record of a remote session.
type Session struct {
	ID             string
	OrganizationID string
	JobID          string
	AgentID        string
	UserID         string
	OpenedWith     account.Credential // "": unknown
	Kind           Kind
	State          State
	AuthorizedKey  string // in the format of authorized_keys
	Username       string
	HostKey        string // in the format of authorized_keys
	Relay          string
	Address        string
	Reason         string
	Sent, Received int64 // -1: unknown, since the replica that counted has died
	CreatedAt      time.Time
	ExpiresAt      time.Time
	ConnectedAt    time.Time
	EndedAt        time.Time
}

// topic is the bus topic of a session.
func topic(id string) string { return "remote-session:" + id }

// jobTopic is the bus topic of new sessions of a job.
func jobTopic(jobID string) string { return "remote-sessions-of:" + jobID }

// unavailable returns the error for a session that cannot be opened now.
func unavailable(why string) error {
	return &core.Error{Kind: core.Unavailable, Message: "The session could not be created: " + why, RetryAfter: 10}
}
