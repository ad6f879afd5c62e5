package events

import (
	"encoding/json"
	"slices"
)

// A Name says what happened.
type Name string

// The names of events.
const (
	BuildScheduled Name = "build.scheduled"
	BuildRunning   Name = "build.running"
	BuildFailing   Name = "build.failing"
	// BuildFinished is written when a build ends, and when it becomes blocked.
	BuildFinished Name = "build.finished"
	BuildSkipped  Name = "build.skipped"

	JobScheduled Name = "job.scheduled"
	JobStarted   Name = "job.started"
	JobFinished  Name = "job.finished"
	// JobActivated is written when a person unblocks a job.
	JobActivated          Name = "job.activated"
	JobPromisedExitStatus Name = "job.promised_exit_status"

	AgentConnected    Name = "agent.connected"
	AgentDisconnected Name = "agent.disconnected"
	AgentLost         Name = "agent.lost"
	AgentStopping     Name = "agent.stopping"
	AgentStopped      Name = "agent.stopped"
	// AgentBlocked is written when the address of a connected agent is no longer allowed by its token.
	AgentBlocked Name = "agent.blocked"
	// RegistrationBlocked is written when an agent token is used from an address that it does not allow.
	RegistrationBlocked Name = "cluster_token.registration_blocked"
	// ScheduleDisabled is written when a schedule is disabled because its builds could not be created.
	ScheduleDisabled Name = "schedule.disabled"
	// SessionStarted is written when a user connects to a shell or a desktop in a job, SessionEnded when that ends.
	SessionStarted Name = "job.session_started"
	SessionEnded   Name = "job.session_ended"
)

// All lists every name.
var All = []Name{
	BuildScheduled, BuildRunning, BuildFailing, BuildFinished, BuildSkipped,
	JobScheduled, JobStarted, JobFinished, JobActivated, JobPromisedExitStatus,
	AgentConnected, AgentDisconnected, AgentLost, AgentStopping, AgentStopped, AgentBlocked,
	RegistrationBlocked, ScheduleDisabled, SessionStarted, SessionEnded,
}

// Names is a set of names. The zero value is empty.
type Names uint64

// NamesOf returns a set. Names that do not exist are left out.
func NamesOf(list ...Name) (set Names) {
	for _, n := range list {
		if i := slices.Index(All, n); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// Has reports whether a name is in the set.
func (s Names) Has(n Name) bool { return s&NamesOf(n) != 0 }

// List returns the names in the set.
func (s Names) List() []Name {
	list := []Name{}
	for i, n := range All {
		if s&(1<<i) != 0 {
			list = append(list, n)
		}
	}
	return list
}

// MarshalJSON writes the set as an array.
func (s Names) MarshalJSON() ([]byte, error) { return json.Marshal(s.List()) }

// UnmarshalJSON reads an array. Names that do not exist are left out.
func (s *Names) UnmarshalJSON(b []byte) error {
	var list []Name
	err := json.Unmarshal(b, &list)
	*s = NamesOf(list...)
	return err
}
