package builds

import (
	"time"

	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// A Build is one run of a pipeline's steps.
type Build struct {
	ID             string
	OrganizationID string
	PipelineID     string
	ClusterID      string // empty when the cluster is gone
	Number         int    // counted from 1 in the pipeline, without gaps
	Branch         string
	Commit         string // a SHA, or what was asked for until an agent resolves it
	Source         Source
	Creator        *identity.User // nil when nobody here made it
	CancelReason   string
	TriggeredBy    string // the trigger job of another build; empty: none
	Root           string // the build that the chain of triggers began with; empty: this one
	RebuiltFrom    string // another build; empty: none
	CreatedAt      time.Time
	ScheduledAt    time.Time // when it is meant to run
	QueuePlace     string    // where it stands in line for concurrency groups: see flow.Admit

	flow.Build
	Details

	rebuiltFrom, triggeredFrom Link // what RebuiltFrom and TriggeredBy lead to, while it exists
}

// A Link is what it takes to name another build.
type Link struct {
	ID     string
	Number int
	Slug   string // of its pipeline
}

// Topic is what the bus calls a change of a build: of its state, its jobs, or what belongs to it.
func Topic(buildID string) string { return "build:" + buildID }

// RebuiltBuild is the build that RebuiltFrom names, while it exists.
func (b *Build) RebuiltBuild() Link { return b.rebuiltFrom }

// TriggeringBuild is the build whose job TriggeredBy names, while it exists.
func (b *Build) TriggeringBuild() Link { return b.triggeredFrom }

// Details are what a build was asked to be.
type Details struct {
	Message       string // empty until an agent reports that of the commit
	Tag           string
	Env           map[string]string
	PipelineEnv   map[string]string // of the pipeline when the build was made
	Author        *Author
	PullRequest   *PullRequest
	CleanCheckout bool
}

// Source is what made a build.
type Source string

// The sources.
const (
	FromWebhook  Source = "webhook"
	FromAPI      Source = "api"
	FromUI       Source = "ui"
	FromTrigger  Source = "trigger_job"
	FromSchedule Source = "schedule"
)

// Values lists every source.
func (Source) Values() []string {
	return []string{string(FromWebhook), string(FromAPI), string(FromUI), string(FromTrigger), string(FromSchedule)}
}

// An Author is who wrote the commit, as far as the one who asked for the build said so.
type Author struct {
	Username string `json:"username,omitempty"`
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
}

// A PullRequest is what the commit is proposed for.
type PullRequest struct {
	ID         string   `json:"id"`
	Base       string   `json:"base,omitempty"`
	Repository string   `json:"repository,omitempty"`
	Labels     []string `json:"labels,omitempty"`
}
