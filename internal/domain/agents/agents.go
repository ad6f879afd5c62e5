// Package agents speaks with agents: it registers them, knows which are there, hands them jobs and
// hears how those go, and shows and steers them in the REST API.
//
// Three ideas carry it. A session (session.go) is what this process remembers of an agent that speaks
// to it, so that an agent that asks for work and gets none costs no database statement; the truth is in
// the database, and the bus says when what is remembered may be old. A job has one holder (held.go): all
// that an agent says about a job is refused unless it is the one that the job was given to. And nobody
// but the server ends a job whose agent has vanished or forgotten it (lost.go), so what agents do not
// say counts as well as what they do.
//
// Which job an agent gets is decided by dispatch, and what follows when a job moves by builds. The bytes
// of logs are joblog's.
package agents

import (
	"slices"
	"time"

	"stackyard/internal/platform/identity"
)

// An Agent is a process that runs jobs, from its registration on.
type Agent struct {
	ID             string
	OrganizationID string
	ClusterID      string
	QueueID        string // "": the queue was deleted
	QueueKey       string
	Creator        *identity.User // identity made the token that it registered with, if somebody is known
	TokenID        string
	TokenName      string // the token's description

	Name      string
	Hostname  string
	Address   string
	UserAgent string
	Version   string
	Build     string
	OS        string // as many lines as the system tells about itself
	Arch      string
	Tags      []string // key=value, its queue among them
	Priority  *int     // higher ones are given jobs first; nil: after all others
	// Ignored agents are offered no jobs: they acquire the one they were started for, or are about to leave.
	Ignored bool
	// OnlyJob is the one job that the agent may take, when it has registered for that.
	OnlyJob string
	// StackID is the stack that issued the token for OnlyJob.
	StackID string

	State             State
	StopRequestedAt   time.Time
	CreatedAt         time.Time
	ConnectedAt       time.Time
	DisconnectedAt    time.Time
	LostAt            time.Time
	StoppedAt         time.Time
	LastJobFinishedAt time.Time
	Pause             Pause
}

// A Pause keeps an agent from being given jobs; the zero time is none.
type Pause struct {
	At      time.Time
	By      *identity.User // nil: a job, or the agent itself
	Note    string
	Minutes int // of this pause, or of the next one that says nothing about it
}

// EndsAt is when the pause ends by itself.
func (p Pause) EndsAt() time.Time { return p.At.Add(time.Duration(p.Minutes) * time.Minute) }

// State is where an agent stands.
type State string

// The states.
const (
	NeverConnected State = "never_connected"
	Connected      State = "connected"
	Stopping       State = "stopping" // it was asked to stop, and ends its job first
	Stopped        State = "stopped"
	Disconnected   State = "disconnected"
	Lost           State = "lost" // it has said nothing for too long
)

// Values lists every state.
func (State) Values() []string {
	return []string{string(NeverConnected), string(Connected), string(Disconnected), string(Stopping), string(Stopped), string(Lost)}
}

// transitions are the states that may follow on another.
var transitions = map[State][]State{
	NeverConnected: {Connected, Disconnected},
	Connected:      {Stopping, Disconnected, Lost},
	Stopping:       {Stopped, Lost},
	Lost:           {Connected, Stopping, Disconnected, Stopped}, // it speaks again
}

// IsConnected reports whether the agent is connected, as far as is known.
func (a *Agent) IsConnected() bool { return a.State == Connected || a.State == Stopping }

// HasLeft reports whether the agent has said that it goes away.
func (a *Agent) HasLeft() bool { return a.State == Disconnected || a.State == Stopped }

// transition moves the agent to a state, and reports whether it may.
func (a *Agent) transition(state State, now time.Time) bool {
	if !slices.Contains(transitions[a.State], state) {
		return false
	}
	a.State = state
	a.LostAt = time.Time{}
	switch state {
	case Connected:
		if a.ConnectedAt.IsZero() {
			a.ConnectedAt = now
		}
	case Stopping:
		if a.StopRequestedAt.IsZero() {
			a.StopRequestedAt = now
		}
	case Stopped:
		a.StoppedAt, a.DisconnectedAt = now, now
	case Disconnected:
		a.DisconnectedAt = now
	case Lost:
		a.LostAt = now
	}
	return true
}

// connectedState is the state of the agent when it speaks.
func (a *Agent) connectedState() State {
	if a.StopRequestedAt.IsZero() {
		return Connected
	}
	return Stopping
}

// disconnectedState is the state of the agent when it has said that it goes away.
func (a *Agent) disconnectedState() State {
	if a.StopRequestedAt.IsZero() {
		return Disconnected
	}
	return Stopped
}
