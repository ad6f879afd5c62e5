package pipelines

import (
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
)

type pipelineView struct {
	ID                   string                      `json:"id"`
	GraphQLID            string                      `json:"graphql_id"`
	URL                  string                      `json:"url"`
	WebURL               string                      `json:"web_url"`
	Name                 string                      `json:"name"`
	Description          string                      `json:"description"`
	Slug                 string                      `json:"slug"`
	Repository           string                      `json:"repository"`
	ClusterID            *string                     `json:"cluster_id"`
	ClusterURL           *string                     `json:"cluster_url"`
	TemplateUUID         *string                     `json:"pipeline_template_uuid" doc:"The template that the steps come from, if any."`
	BranchConfiguration  *string                     `json:"branch_configuration" doc:"The branches that are built; null: all."`
	CloneMirrorURL       **string                    `json:"clone_mirror_url,omitempty" doc:"Where agents clone from first. Where clone mirrors are switched off, a pipeline without one leaves it out."`
	DefaultBranch        string                      `json:"default_branch"`
	SkipQueued           bool                        `json:"skip_queued_branch_builds"`
	SkipQueuedFilter     *string                     `json:"skip_queued_branch_builds_filter"`
	CancelRunning        bool                        `json:"cancel_running_branch_builds"`
	CancelRunningFilter  *string                     `json:"cancel_running_branch_builds_filter"`
	AllowRebuilds        bool                        `json:"allow_rebuilds"`
	Provider             sourceProviderView          `json:"provider"`
	BuildsURL            string                      `json:"builds_url"`
	BadgeURL             string                      `json:"badge_url"`
	CreatedBy            *identity.UserView          `json:"created_by"`
	CreatedAt            core.Time                   `json:"created_at"`
	ArchivedAt           core.Time                   `json:"archived_at"`
	Env                  map[string]string           `json:"env" doc:"The environment of a visual pipeline; where the steps are YAML it is in there."`
	ScheduledBuildsCount int                         `json:"scheduled_builds_count"`
	RunningBuildsCount   int                         `json:"running_builds_count"`
	ScheduledJobsCount   int                         `json:"scheduled_jobs_count"`
	RunningJobsCount     int                         `json:"running_jobs_count"`
	WaitingJobsCount     int                         `json:"waiting_jobs_count"`
	Visibility           Visibility                  `json:"visibility"`
	Tags                 *[]string                   `json:"tags"`
	Emoji                *string                     `json:"emoji"`
	Color                *string                     `json:"color"`
	DefaultTimeout       *int                        `json:"default_command_step_timeout" doc:"Minutes that command steps may take unless they say otherwise."`
	MaximumTimeout       *int                        `json:"maximum_command_step_timeout" doc:"Minutes that command steps may take at most."`
	Steps                []definition.VisualResponse `json:"steps" doc:"The steps in visual form, also where they are YAML."`
	Configuration        string                      `json:"configuration,omitempty" doc:"The steps as YAML; left out for a visual pipeline."`
}

type sourceProviderView struct {
	ID         string         `json:"id" doc:"The kind of source host, such as github; git for any other."`
	WebhookURL string         `json:"webhook_url" doc:"Where the source host sends events; empty unless you may change the pipeline with a token that has write_pipelines."`
	Settings   map[string]any `json:"settings"`
}

// view returns the response for viewers with access to the pipeline.
func (s *Service) view(r *route.Request, p *Pipeline) pipelineView {
	org := r.Org
	v := pipelineView{
		ID:                   p.ID,
		GraphQLID:            core.GraphQLID("Pipeline", p.ID),
		URL:                  s.public.Org(org.Slug, "pipelines", p.Slug),
		WebURL:               s.public.To(org.Slug, p.Slug),
		Name:                 p.Name,
		Description:          p.Description,
		Slug:                 p.Slug,
		Repository:           p.Repository,
		ClusterID:            core.OrNull(p.ClusterID),
		TemplateUUID:         core.OrNull(p.TemplateID),
		BranchConfiguration:  core.OrNull(p.BranchConfiguration),
		DefaultBranch:        p.DefaultBranch,
		SkipQueued:           p.SkipQueued.On,
		SkipQueuedFilter:     core.OrNull(p.SkipQueued.Filter),
		CancelRunning:        p.CancelRunning.On,
		CancelRunningFilter:  core.OrNull(p.CancelRunning.Filter),
		AllowRebuilds:        p.AllowRebuilds,
		Provider:             sourceProviderView{ID: p.Provider, Settings: p.ProviderSettings.On(p.Provider, p.Repository)},
		BuildsURL:            s.public.Org(org.Slug, "pipelines", p.Slug, "builds"),
		BadgeURL:             s.public.To("badge", p.badgeKey+".svg"),
		CreatedBy:            p.CreatedBy.View(s.public),
		CreatedAt:            core.At(p.CreatedAt),
		ArchivedAt:           core.At(p.ArchivedAt),
		Env:                  p.Env,
		ScheduledBuildsCount: p.Counts.ScheduledBuilds,
		RunningBuildsCount:   p.Counts.RunningBuilds,
		ScheduledJobsCount:   p.Counts.ScheduledJobs,
		RunningJobsCount:     p.Counts.RunningJobs,
		WaitingJobsCount:     p.Counts.WaitingJobs,
		Visibility:           p.Visibility,
		Emoji:                core.OrNull(p.Emoji),
		Color:                core.OrNull(p.Color),
		DefaultTimeout:       p.DefaultTimeout,
		MaximumTimeout:       p.MaximumTimeout,
		Steps:                p.Steps,
		Configuration:        p.Configuration,
	}
	if p.ClusterID != "" {
		url := s.public.Org(org.Slug, "clusters", p.ClusterID)
		v.ClusterURL = &url
	}
	if len(p.Tags) > 0 {
		v.Tags = &p.Tags
	}
	if mirror := core.OrNull(p.CloneMirrorURL); mirror != nil || org.Features.CloneMirrors {
		v.CloneMirrorURL = &mirror
	}
	if p.Permits(r, identity.ManagePipeline) && r.Caller.HasScope(identity.WritePipelines) {
		v.Provider.WebhookURL = s.WebhookURL(p)
	}
	return v
}
