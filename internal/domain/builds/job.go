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
	QueueID        string // empty: the job needs no agent, or the cluster has no default queue
	Timeout        *int   // minutes; nil: none
	ParallelIndex  *int
	ParallelTotal  *int
	Matrix         any
	Detail         string // why it ended, for people
	Debug          bool   // its environment is kept for a while if it fails
	RetriedBy      *identity.User
	UnblockedBy    *identity.User
	CreatedAt      time.Time
	ScheduledAt    time.Time // requested start

	Step StepRef
	// Label and Work are the job's own, or else those of its step.
	Label string
	Work  plan.Work
	// StepWork is the work of the step, with unexpanded matrix placeholders.
	StepWork plan.Work
	Child    Link // the build that a trigger job started, while it exists

	uploadEnv map[string]string // loaded only with a single job
	unblocker *identity.User    // last user who unblocked a job of the build; loaded only with a single job
	// unblockerTeams are the slugs of the unblocker's teams.
	unblockerTeams []string
	agentName      string // loaded only for responses and pages
}

// A StepRef is what a job shows of its step.
type StepRef struct {
	ID       string
	Label    string // as written: with placeholders
	Key      string // empty: none
	GroupID  string // the group that the step is in; empty: none
	GroupKey string // empty: none
	// GroupLabel is the label of the group.
	GroupLabel string
	Async      bool // of a trigger step
	// ManualRetry says whether people can retry the step's jobs.
	ManualRetry definition.ManualRetry
}

// AgentName is the name of its agent, if it has one and the name was loaded.
func (j *Job) AgentName() string { return j.agentName }

// FinishedByStack reports whether a stack finished the job without an agent. Detail says why.
func (j *Job) FinishedByStack() bool {
	return j.Type == flow.Script && j.State == flow.Finished && j.AgentID == "" && j.Detail != ""
}

// MayRetry returns nil if a person can retry the job, and otherwise an error for the person. It does not check
// other jobs.
func (j *Job) MayRetry(b *Build) error { return flow.MayRetry(&b.Build, &j.Job, j.Step.ManualRetry) }
