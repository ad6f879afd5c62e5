package builds

import (
	"time"

	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// A Job is one attempt at a part of a step's work.
type Job struct {
	flow.Job
	OrganizationID string
	BuildID        string
	Position       string // orders the jobs of a build, attempts of one job by their ids
	Priority       int
	QueueID        string // empty: no agent takes it, or the cluster has no default queue
	Timeout        *int   // minutes; nil: none
	ParallelIndex  *int
	ParallelTotal  *int
	Matrix         any
	Detail         string // why it ended as it did, in words
	RetriedBy      *identity.User
	UnblockedBy    *identity.User
	CreatedAt      time.Time
	ScheduledAt    time.Time // when it is meant to run

	Step StepRef
	// Label and Work are its own where it has some, and otherwise its step's.
	Label string
	Work  plan.Work
	// StepWork is its step's, with the placeholders of a matrix as they were written.
	StepWork plan.Work
	Child    Link // the build that a trigger job started, while it exists

	uploadEnv map[string]string // read where a single job is
	unblocker *identity.User    // who has unblocked the build last, likewise
	// unblockerTeams are the slugs of the teams that the unblocker is in.
	unblockerTeams []string
	agentName      string // that of its agent, read where it is shown
}

// A StepRef is what a job shows of its step.
type StepRef struct {
	ID       string
	Key      string // empty: none
	GroupID  string // the group that the step is in; empty: none
	GroupKey string // empty: none
	// GroupLabel is the group's.
	GroupLabel string
	Async      bool // of a trigger step
	// ManualRetry says whether people may retry the step's jobs.
	ManualRetry definition.ManualRetry
}

// AgentName is the name of its agent, where there is one and the job was read to be shown.
func (j *Job) AgentName() string { return j.agentName }

// FinishedByStack reports whether a stack ended it without an agent. Detail says why.
func (j *Job) FinishedByStack() bool {
	return j.Type == flow.Script && j.State == flow.Finished && j.AgentID == "" && j.Detail != ""
}

// MayRetry returns nil when a person may retry the job of a build, as far as can be told without looking
// at others, and otherwise what to tell the person.
func (j *Job) MayRetry(b *Build) error { return flow.MayRetry(&b.Build, &j.Job, j.Step.ManualRetry) }
