package builds

import (
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// A Build is one run of a pipeline's steps.
type Build struct {
	ID             string
	OrganizationID string
	PipelineID     string
	ClusterID      string // empty when the cluster was deleted
	Number         int    // from 1 in the pipeline, without gaps
	Branch         string
	Commit         string // a SHA, or the requested name until an agent resolves it
	Source         Source
	Creator        *identity.User // nil: not created by a user of this installation
	CancelReason   string
	TriggeredBy    string // the trigger job of another build; empty: none
	Root           string // the first build in the chain of triggers; empty: this one
	RebuiltFrom    string // another build; empty: none
	CreatedAt      time.Time
	ScheduledAt    time.Time // requested start
	QueuePlace     string    // order in the queues of concurrency groups: see flow.Admit
	// Version is increased by each transaction that changes the build, its steps or its jobs.
	Version int64
	// Jobs are the numbers of its command jobs that have not ended.
	Jobs pipelines.Counts

	flow.Build
	Details

	RebuiltBuild    Link // the build with the id RebuiltFrom, while it exists
	TriggeringBuild Link // the build of the job TriggeredBy, while it exists
}

// A Link identifies another build in URLs and texts.
type Link struct {
	ID     string
	Number int
	Slug   string // of its pipeline
}

// Topic is the bus topic of a build. It is announced when the build, its jobs or what belongs to it changes.
func Topic(buildID string) string { return "build:" + buildID }

// PipelineTopic is the bus topic of the builds of a pipeline, and OrganizationTopic of those of an organization. They are
// announced when a build is created or it or its jobs change.
func PipelineTopic(pipelineID string) string { return "builds of pipeline:" + pipelineID }

// OrganizationTopic is described at PipelineTopic.
func OrganizationTopic(organizationID string) string {
	return "builds of organization:" + organizationID
}

// Topics returns the topics of a build.
func (b *Build) Topics() []string {
	return []string{Topic(b.ID), PipelineTopic(b.PipelineID), OrganizationTopic(b.OrganizationID)}
}

// Details are the parts of a build that its creator chooses.
type Details struct {
	Message       string // empty until an agent reports the message of the commit
	Tag           string
	Env           map[string]string
	PipelineEnv   map[string]string // of the pipeline when the build was created
	Author        *Author
	PullRequest   *PullRequest
	SourceEvent   *SourceEvent // nil: not created by a webhook
	CleanCheckout bool
}

// A SourceEvent is the event at the source host for which a build was created.
type SourceEvent struct {
	Name       string      `json:"name,omitempty"`   // as the host calls it, such as "pull_request"
	Action     string      `json:"action,omitempty"` // such as "opened"
	MergeQueue *MergeQueue `json:"merge_queue,omitempty"`
	DiffBase   string      `json:"diff_base,omitempty"` // commit to find changed files against; empty: the base branch
	Fork       bool        `json:"fork,omitempty"`      // a pull request from a fork; builds that its build triggers have it too
}

// A MergeQueue is what the merge queue that asked for a build merges into.
type MergeQueue struct {
	BaseBranch string `json:"base_branch"`
	BaseCommit string `json:"base_commit,omitempty"`
}

// MergeQueue returns the merge queue that asked for the build, or nil.
func (b *Build) MergeQueue() *MergeQueue {
	if b.SourceEvent == nil {
		return nil
	}
	return b.SourceEvent.MergeQueue
}

// FromFork reports whether the build is of a pull request from another repository than its pipeline's, or triggered
// by such a build. People outside of the organization can write what it runs, so it gets no credentials: no secrets,
// no tokens, no repository URL with a password.
func (b *Build) FromFork(p *pipelines.Pipeline) bool {
	if b.MarkedFork() {
		return true
	}
	pr := b.PullRequest
	return pr != nil && (pr.Fork != nil && *pr.Fork || p.Foreign(pr.Repository))
}

// MarkedFork is FromFork as it was when the build was created.
func (b *Build) MarkedFork() bool { return b.SourceEvent != nil && b.SourceEvent.Fork }

// MarkFork keeps in the build's own row that it is from a fork, so that it stays one when the pipeline gets another
// repository.
func (b *Build) MarkFork(p *pipelines.Pipeline) {
	if !b.FromFork(p) {
		return
	}
	var marked SourceEvent
	if b.SourceEvent != nil {
		marked = *b.SourceEvent
	}
	marked.Fork = true
	b.SourceEvent = &marked
}

// Source is what created a build.
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

// An Author is the author of the commit, as given by the creator of the build.
type Author struct {
	Username string `json:"username,omitempty"`
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
}

// A PullRequest is the pull request that the commit belongs to.
type PullRequest struct {
	ID         string   `json:"id"`
	Base       string   `json:"base,omitempty"`
	Repository string   `json:"repository,omitempty"`
	Labels     []string `json:"labels,omitempty"`
	// Label is the added or removed label that caused the build; empty: none.
	Label string `json:"label,omitempty"`
	// Draft and Fork are nil when the creator of the build did not set them.
	Draft *bool `json:"draft,omitempty"`
	Fork  *bool `json:"fork,omitempty"`
}
