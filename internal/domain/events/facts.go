package events

import (
	"time"

	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// Facts are what was true when an event was written and may differ when it is read. They are stored as JSON.
type Facts struct {
	Build *BuildFacts `json:"build,omitempty"`
	Job   *JobFacts   `json:"job,omitempty"`
	Agent *AgentFacts `json:"agent,omitempty"`

	Schedule *ScheduleFacts `json:"schedule,omitempty"`
	Session  *SessionFacts  `json:"session,omitempty"`

	// PromiseReason is the reason of a promised exit status, if the job gave one.
	PromiseReason string `json:"promise_reason,omitempty"`
	// BlockedIP is the address that the agent token with the id TokenID does not allow.
	BlockedIP string `json:"blocked_ip,omitempty"`
	TokenID   string `json:"token_id,omitempty"`
}

// BuildFacts are the facts of a build.
type BuildFacts struct {
	State flow.BuildState `json:"state"`
	// Blocked is the state that the API shows while the build waits for a person; empty when it does not.
	Blocked definition.BlockedState `json:"blocked,omitempty"`
	// Fixed is set when the build passed and the build of its branch before it failed.
	Fixed        bool      `json:"fixed,omitempty"`
	CancelReason string    `json:"cancel_reason,omitempty"`
	StartedAt    time.Time `json:"started_at,omitzero"`
	FailingAt    time.Time `json:"failing_at,omitzero"`
	FinishedAt   time.Time `json:"finished_at,omitzero"`
}

// JobFacts are the facts of a job.
type JobFacts struct {
	State              flow.JobState `json:"state"`
	AgentID            string        `json:"agent_id,omitempty"`
	ExitStatus         *int          `json:"exit_status,omitempty"`
	Signal             string        `json:"signal,omitempty"`
	SignalReason       string        `json:"signal_reason,omitempty"`
	SoftFailed         bool          `json:"soft_failed,omitempty"`
	PromisedExitStatus *int          `json:"promised_exit_status,omitempty"`
	PromisedAt         time.Time     `json:"promised_at,omitzero"`
	Retried            bool          `json:"retried,omitempty"`
	RetriedIn          string        `json:"retried_in,omitempty"`
	RunnableAt         time.Time     `json:"runnable_at,omitzero"`
	StartedAt          time.Time     `json:"started_at,omitzero"`
	FinishedAt         time.Time     `json:"finished_at,omitzero"`
	ExpiredAt          time.Time     `json:"expired_at,omitzero"`
	UnblockedAt        time.Time     `json:"unblocked_at,omitzero"`
}

// SessionFacts are the facts of a remote session into a job.
type SessionFacts struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	UserID    string    `json:"user_id"`
	Address   string    `json:"address"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"` // zero: it has started
	Reason    string    `json:"reason,omitempty"`
	Sent      int64     `json:"sent"` // -1: unknown
	Received  int64     `json:"received"`
}

// ScheduleFacts are the facts of a schedule that was disabled.
type ScheduleFacts struct {
	ID       string    `json:"id"`
	Label    string    `json:"label"`
	Cronline string    `json:"cronline"`
	Reason   string    `json:"failed_message"`
	FailedAt time.Time `json:"failed_at"`
}

// AgentFacts are the facts of an agent.
type AgentFacts struct {
	State          string    `json:"state"`
	ConnectedAt    time.Time `json:"connected_at,omitzero"`
	DisconnectedAt time.Time `json:"disconnected_at,omitzero"`
	LostAt         time.Time `json:"lost_at,omitzero"`
	StoppedAt      time.Time `json:"stopped_at,omitzero"`
}
