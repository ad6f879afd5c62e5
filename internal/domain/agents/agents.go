// Package agents implements the session protocol of agents: register, connect, ping or stream, accept, start,
// finish and disconnect. It also lists, pauses and stops agents over the REST API.
//
// A session (session.go) caches an agent and its job in memory, so that an idle agent costs no database
// statements; the bus reports when the cache may be stale. A job has one holder (holder.go): requests about a
// job are refused unless they come from the agent that accepted it. Only the server ends a job whose agent is
// lost or has forgotten it (lost.go, forgotten.go).
//
// It does not choose jobs (package dispatch), does not move them through their states (package builds), and
// does not serve other requests of running jobs (packages jobapi and oidc).
package agents

import (
	"slices"
	"time"

	"stackyard/internal/platform/identity"
)

// An Agent is a registered process that runs jobs.
type Agent struct {
	ID             string
	OrganizationID string
	ClusterID      string
	QueueID        string // "": the queue was deleted
	QueueKey       string
	Creator        *identity.User // user who created its agent token; nil: unknown
	TokenID        string
	TokenName      string // the token's description

	Name      string
	Hostname  string
	Address   string
	UserAgent string
	Version   string
	Build     string
	OS        string // as the agent reports it; can have many lines
	Arch      string
	Tags      []string // key=value, including its queue
	Priority  *int     // agents with a higher priority get jobs first; nil: after all others
	// Ignored agents are offered no jobs: they acquire the job that they were started for, or are about to
	// leave.
	Ignored bool
	// OnlyJob is the only job that the agent may take; "": any job.
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

// A Pause keeps an agent from getting jobs. At is zero when the agent is not paused.
type Pause struct {
	At      time.Time
	By      *identity.User // nil: a job, or the agent itself
	Note    string
	Minutes int // of this pause, and the default of the next one
}

// EndsAt returns when the pause ends by itself.
func (p Pause) EndsAt() time.Time { return p.At.Add(time.Duration(p.Minutes) * time.Minute) }

// State is the connection state of an agent.
type State string

// The states.
const (
	NeverConnected State = "never_connected"
	Connected      State = "connected"
	Stopping       State = "stopping" // it was asked to stop and finishes its job first
	Stopped        State = "stopped"
	Disconnected   State = "disconnected"
	Lost           State = "lost" // it sent no request for Settings.LostAfter
)

// Values lists every state.
func (State) Values() []string {
	return []string{string(NeverConnected), string(Connected), string(Disconnected), string(Stopping), string(Stopped), string(Lost)}
}

// transitions lists the states that can follow each state.
var transitions = map[State][]State{
	NeverConnected: {Connected, Disconnected},
	Connected:      {Stopping, Disconnected, Lost},
	Stopping:       {Stopped, Lost},
	Lost:           {Connected, Stopping, Disconnected, Stopped}, // it sends requests again
}

// IsConnected reports whether the agent is connected.
func (a *Agent) IsConnected() bool { return a.State == Connected || a.State == Stopping }

// HasLeft reports whether the agent has disconnected or stopped.
func (a *Agent) HasLeft() bool { return a.State == Disconnected || a.State == Stopped }

// transition moves the agent to a state and reports whether the state can follow the current one.
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

// connectedState returns the state of the agent when it sends a request.
func (a *Agent) connectedState() State {
	if a.StopRequestedAt.IsZero() {
		return Connected
	}
	return Stopping
}

// disconnectedState returns the state of the agent after it disconnects.
func (a *Agent) disconnectedState() State {
	if a.StopRequestedAt.IsZero() {
		return Disconnected
	}
	return Stopped
}
