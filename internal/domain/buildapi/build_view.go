package buildapi

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

type buildView struct {
	ID               string                  `json:"id"`
	GraphQLID        string                  `json:"graphql_id"`
	URL              string                  `json:"url"`
	WebURL           string                  `json:"web_url"`
	Number           int                     `json:"number"`
	State            flow.BuildState         `json:"state" doc:"While the build is blocked, the state that its block step asks for."`
	Blocked          bool                    `json:"blocked" doc:"Whether it waits for a person to unblock a job, and nothing else can happen until then. The state of such a build can be failing."`
	CancelReason     *string                 `json:"cancel_reason"`
	Message          *string                 `json:"message"`
	Commit           string                  `json:"commit"`
	Branch           string                  `json:"branch"`
	Tag              *string                 `json:"tag"`
	Env              map[string]string       `json:"env"`
	Source           builds.Source           `json:"source"`
	Author           *buildAuthorView        `json:"author"`
	Creator          *identity.UserView      `json:"creator"`
	CreatedAt        core.Time               `json:"created_at"`
	ScheduledAt      core.Time               `json:"scheduled_at"`
	StartedAt        core.Time               `json:"started_at"`
	FailingAt        core.Time               `json:"failing_at" doc:"When it first became clear that it would fail."`
	FinishedAt       core.Time               `json:"finished_at"`
	MetaData         map[string]string       `json:"meta_data"`
	PullRequest      *pullRequestView        `json:"pull_request"`
	MergeQueue       *mergeQueueView         `json:"merge_queue"`
	RebuiltFrom      *rebuiltFromView        `json:"rebuilt_from"`
	TriggeredFrom    *triggeredFromView      `json:"triggered_from"`
	Pipeline         *pipelines.PipelineView `json:"pipeline,omitempty" doc:"Left out with exclude_pipeline."`
	Jobs             *[]JobView              `json:"jobs,omitempty" doc:"The latest attempt of each job unless include_retried_jobs is set; left out with exclude_jobs."`
	JobStateCounts   *jobStateCountsView     `json:"job_state_counts,omitempty"`
	TestEngine       *testEngineView         `json:"test_engine,omitempty"`
	RetriedJobsCount *int                    `json:"retried_jobs_count,omitempty"`
}

type buildAuthorView struct {
	Username string `json:"username"`
	Name     string `json:"name"`
	Email    string `json:"email"`
}

type pullRequestView struct {
	ID         string   `json:"id"`
	Base       *string  `json:"base"`
	Repository *string  `json:"repository"`
	Labels     []string `json:"labels"`
}

type mergeQueueView struct {
	BaseBranch string `json:"base_branch"`
}

type rebuiltFromView struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	URL    string `json:"url"`
}

type triggeredFromView struct {
	BuildID           string `json:"build_id"`
	BuildNumber       int    `json:"build_number"`
	BuildPipelineSlug string `json:"build_pipeline_slug"`
}

type jobStateCountsView struct {
	Total  int            `json:"total"`
	States map[string]int `json:"states" doc:"How many jobs are in each state, as job lists name them."`
}

type testEngineView struct {
	Runs []testRunView `json:"runs"`
}

type testRunView struct {
	ID    string        `json:"id"`
	Suite testSuiteView `json:"suite"`
}

type testSuiteView struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
}

// view returns the view of a build without jobs, pipeline and meta-data, which the caller adds.
func (s *Service) view(r *route.Request, p *pipelines.Pipeline, b *builds.Build) buildView {
	at := s.builds.Address(r.Org, p, b.Number)
	v := buildView{
		ID:           b.ID,
		GraphQLID:    core.GraphQLID("Build", b.ID),
		URL:          at.API(),
		WebURL:       at.Web(),
		Number:       b.Number,
		State:        b.State,
		Blocked:      b.Blocked(),
		CancelReason: core.OrNull(b.CancelReason),
		Message:      core.OrNull(b.Message),
		Commit:       b.Commit,
		Branch:       b.Branch,
		Tag:          core.OrNull(b.Tag),
		Env:          b.Env,
		Source:       b.Source,
		Creator:      b.Creator.View(s.public),
		CreatedAt:    core.At(b.CreatedAt),
		ScheduledAt:  core.At(b.ScheduledAt),
		StartedAt:    core.At(b.StartedAt),
		FailingAt:    core.At(b.FailingAt),
		FinishedAt:   core.At(b.FinishedAt),
		MetaData:     map[string]string{},
	}
	if b.State == flow.BuildBlocked {
		v.State = flow.BuildState(b.BlockedState())
	}
	if v.Env == nil {
		v.Env = map[string]string{}
	}
	if a := b.Author; a != nil {
		v.Author = &buildAuthorView{Username: a.Username, Name: a.Name, Email: a.Email}
	}
	if pr := b.PullRequest; pr != nil {
		v.PullRequest = &pullRequestView{ID: pr.ID, Base: core.OrNull(pr.Base), Repository: core.OrNull(pr.Repository), Labels: append([]string{}, pr.Labels...)}
	}
	if queue := b.MergeQueue(); queue != nil {
		v.MergeQueue = &mergeQueueView{BaseBranch: queue.BaseBranch}
	}
	if from := b.RebuiltBuild; from.ID != "" {
		v.RebuiltFrom = &rebuiltFromView{ID: from.ID, Number: from.Number, URL: s.builds.AddressOf(r.Org, from).API()}
	}
	if from := b.TriggeringBuild; from.ID != "" {
		v.TriggeredFrom = &triggeredFromView{BuildID: from.ID, BuildNumber: from.Number, BuildPipelineSlug: from.Slug}
	}
	return v
}
