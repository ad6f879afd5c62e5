package pipelines

import (
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// pipelineFields are the request fields common to creating and updating a pipeline.
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

// applyTo writes the fields that were sent into p, except repository, provider, steps and references to other
// resources. null clears a field; for a boolean, null changes nothing.
func (f *pipelineFields) applyTo(p *Pipeline, problems *core.Problems) {
	setTrimmed(f.Name, &p.Name)
	setTrimmed(f.Slug, &p.Slug)
	p.Slug = strings.ToLower(p.Slug)
	f.Description.To(&p.Description)
	setTrimmed(f.DefaultBranch, &p.DefaultBranch)
	setUnlessNull(f.Visibility, &p.Visibility)
	if f.Tags.Set {
		p.Tags = f.Tags.Value
	}
	setTrimmed(f.Emoji, &p.Emoji)
	setTrimmed(f.Color, &p.Color)
	setTrimmed(f.BranchConfiguration, &p.BranchConfiguration)
	setUnlessNull(f.SkipQueued, &p.SkipQueued.On)
	setTrimmed(f.SkipQueuedFilter, &p.SkipQueued.Filter)
	setUnlessNull(f.CancelRunning, &p.CancelRunning.On)
	setTrimmed(f.CancelRunningFilter, &p.CancelRunning.Filter)
	setUnlessNull(f.AllowRebuilds, &p.AllowRebuilds)
	setTrimmed(f.CloneMirrorURL, &p.CloneMirrorURL)
	setPointer(f.DefaultTimeout, &p.DefaultTimeout)
	setPointer(f.MaximumTimeout, &p.MaximumTimeout)
	p.ProviderSettings = p.ProviderSettings.with(f.ProviderSettings.Value, p.Provider, problems)
}

// setTrimmed sets dst to the text, without surrounding space, if it was sent.
func setTrimmed(sent route.Opt[string], dst *string) {
	if sent.Set {
		*dst = strings.TrimSpace(sent.Value)
	}
}

// setUnlessNull sets dst if the value was sent and is not null.
func setUnlessNull[T any](sent route.Opt[T], dst *T) {
	if sent.Set && !sent.Null {
		*dst = sent.Value
	}
}

// setPointer sets dst if the value was sent; null becomes nil.
func setPointer[T any](sent route.Opt[T], dst **T) {
	switch {
	case sent.Null:
		*dst = nil
	case sent.Set:
		*dst = &sent.Value
	}
}
