package pipelines

import (
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// pipelineFields are the fields that creating and updating a pipeline both take.
type pipelineFields struct {
	stepsFields

	Name                route.Opt[string]         `json:"name"`
	Slug                route.Opt[string]         `json:"slug" doc:"Letters, digits and hyphens; derived from the name of a new pipeline when it is not given."`
	Description         route.Opt[string]         `json:"description"`
	Repository          route.Opt[string]         `json:"repository" doc:"The URL of the source repository."`
	ClusterID           route.Opt[string]         `json:"cluster_id" doc:"The cluster whose agents run the pipeline."`
	DefaultBranch       route.Opt[string]         `json:"default_branch"`
	Visibility          route.Opt[Visibility]     `json:"visibility"`
	Tags                route.Opt[[]string]       `json:"tags"`
	Emoji               route.Opt[string]         `json:"emoji"`
	Color               route.Opt[string]         `json:"color" doc:"In hex, such as #A9CCE3 or #abc."`
	BranchConfiguration route.Opt[string]         `json:"branch_configuration" doc:"The branches that are built."`
	SkipQueued          route.Opt[bool]           `json:"skip_queued_branch_builds" doc:"Whether a newer build of a branch lets older ones that wait be skipped."`
	SkipQueuedFilter    route.Opt[string]         `json:"skip_queued_branch_builds_filter" doc:"The branches that skip_queued_branch_builds holds for."`
	CancelRunning       route.Opt[bool]           `json:"cancel_running_branch_builds" doc:"Whether a newer build of a branch cancels older ones that run."`
	CancelRunningFilter route.Opt[string]         `json:"cancel_running_branch_builds_filter" doc:"The branches that cancel_running_branch_builds holds for."`
	AllowRebuilds       route.Opt[bool]           `json:"allow_rebuilds"`
	CloneMirrorURL      route.Opt[string]         `json:"clone_mirror_url" doc:"Where agents clone from first. It has no credentials, query or fragment."`
	DefaultTimeout      route.Opt[int]            `json:"default_command_step_timeout" doc:"Minutes that command steps may take unless they say otherwise; null for no default. A new pipeline gets the organization's default_timeout_in_minutes unless given."`
	MaximumTimeout      route.Opt[int]            `json:"maximum_command_step_timeout" doc:"Minutes that command steps may take at most."`
	ProviderSettings    route.Opt[map[string]any] `json:"provider_settings" doc:"How the source host and the pipeline work together. What is left out stays, null is the default."`
}

// merge gives a pipeline what was sent, apart from its repository and provider, its steps and what refers to
// other things. Null
// takes a field back to nothing; a switch knows no nothing, so null leaves it.
func (f *pipelineFields) merge(p *Pipeline, problems *core.Problems) {
	trimmed(f.Name, &p.Name)
	trimmed(f.Slug, &p.Slug)
	p.Slug = strings.ToLower(p.Slug)
	f.Description.To(&p.Description)
	trimmed(f.DefaultBranch, &p.DefaultBranch)
	given(f.Visibility, &p.Visibility)
	if f.Tags.Set {
		p.Tags = f.Tags.Value
	}
	trimmed(f.Emoji, &p.Emoji)
	trimmed(f.Color, &p.Color)
	trimmed(f.BranchConfiguration, &p.BranchConfiguration)
	given(f.SkipQueued, &p.SkipQueued.On)
	trimmed(f.SkipQueuedFilter, &p.SkipQueued.Filter)
	given(f.CancelRunning, &p.CancelRunning.On)
	trimmed(f.CancelRunningFilter, &p.CancelRunning.Filter)
	given(f.AllowRebuilds, &p.AllowRebuilds)
	trimmed(f.CloneMirrorURL, &p.CloneMirrorURL)
	orNil(f.DefaultTimeout, &p.DefaultTimeout)
	orNil(f.MaximumTimeout, &p.MaximumTimeout)
	p.ProviderSettings = p.ProviderSettings.with(f.ProviderSettings.Value, p.Provider, problems)
}

// trimmed writes a text that was sent, without space around it, to dst.
func trimmed(sent route.Opt[string], dst *string) {
	if sent.Set {
		*dst = strings.TrimSpace(sent.Value)
	}
}

// given writes a value that was sent, and not as null, to dst.
func given[T any](sent route.Opt[T], dst *T) {
	if sent.Set && !sent.Null {
		*dst = sent.Value
	}
}

// orNil writes a value that was sent to dst, nil for null.
func orNil[T any](sent route.Opt[T], dst **T) {
	switch {
	case sent.Null:
		*dst = nil
	case sent.Set:
		*dst = &sent.Value
	}
}
