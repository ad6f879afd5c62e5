package pipelines

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/rules/condition"
)

// ProviderSettings holds the provider settings that were set, by name.
type ProviderSettings map[string]any

// A property is one of the provider settings.
type property struct {
	name string
	// unset is the default value. Its type, bool or string, is the type of the property.
	unset any
	// providers lists the providers that have the property.
	providers []string
	// oneOf lists the allowed values of a string; nil: any.
	oneOf []string
	// condition requires a non-blank string to be a valid condition.
	condition bool
}

var (
	githubProviders = []string{sourcehost.ProviderGitHub, sourcehost.ProviderGitHubEnterprise}
	cloudProviders  = append([]string{sourcehost.ProviderBitbucket}, githubProviders...)
	pushProviders   = append([]string{sourcehost.ProviderBitbucketServer, sourcehost.ProviderGitLab, sourcehost.ProviderGitLabEE, sourcehost.ProviderGitea}, cloudProviders...)
	allProviders    = append([]string{sourcehost.ProviderGit}, pushProviders...)

	// Hosts that report drafts, labels and base branches of pull requests.
	draftProviders = append([]string{sourcehost.ProviderGitLab, sourcehost.ProviderGitLabEE}, githubProviders...)
	labelProviders = append([]string{sourcehost.ProviderGitea}, draftProviders...)
	baseProviders  = append([]string{sourcehost.ProviderBitbucketServer}, labelProviders...)
)

// properties lists all provider settings. The specification names those of the first two groups; the others are
// sent by existing clients for GitHub, and act for the other hosts that report what they are about.
var properties = []property{
	{name: "filter_enabled", unset: false, providers: allProviders},
	{name: "filter_condition", unset: "", providers: allProviders, condition: true},
	{name: "build_branches", unset: true, providers: pushProviders},
	{name: "build_pull_requests", unset: true, providers: pushProviders},
	{name: "build_tags", unset: false, providers: pushProviders},

	{name: "ignore_default_branch_pull_requests", unset: false, providers: cloudProviders},
	{name: "publish_commit_status", unset: true, providers: pushProviders},
	{name: "publish_commit_status_per_step", unset: false, providers: pushProviders},
	{name: "pull_request_branch_filter_enabled", unset: false, providers: cloudProviders},
	{name: "pull_request_branch_filter_configuration", unset: "", providers: cloudProviders},
	{name: "skip_pull_request_builds_for_existing_commits", unset: true, providers: cloudProviders},

	{name: "trigger_mode", unset: "code", providers: githubProviders, oneOf: []string{"code", "deployment", "fork", "none"}},
	{name: "build_merge_group_checks_requested", unset: false, providers: githubProviders},
	{name: "build_pull_request_base_branch_changed", unset: false, providers: baseProviders},
	{name: BuildForks, unset: false, providers: pushProviders},
	{name: "build_pull_request_labels_changed", unset: false, providers: labelProviders},
	{name: "build_pull_request_ready_for_review", unset: false, providers: draftProviders},
	{name: "cancel_deleted_branch_builds", unset: false, providers: pushProviders},
	{name: "cancel_when_merge_group_destroyed", unset: false, providers: githubProviders},
	{name: "prefix_pull_request_fork_branch_names", unset: true, providers: pushProviders},
	{name: "publish_blocked_as_pending", unset: false, providers: githubProviders},
	{name: "separate_pull_request_statuses", unset: false, providers: githubProviders},
	{name: "skip_builds_for_existing_commits", unset: false, providers: pushProviders},
	{name: "use_merge_group_base_commit_for_git_diff_base", unset: false, providers: githubProviders},
	{name: "use_step_key_as_commit_status", unset: false, providers: githubProviders},
}

// BuildForks is the setting that lets pull requests from forks be built.
const BuildForks = "build_pull_request_forks"

// maxProviderText is the length limit of texts in provider settings, in characters.
const maxProviderText = 8192

// with returns the settings with the values in sent; null resets one to its default. It reports values of a
// wrong type. It ignores properties that the provider does not have: clients send back what they read, newer
// clients know more properties, and the repository may have moved to another host.
func (s ProviderSettings) with(sent map[string]any, provider string, problems *core.Problems) ProviderSettings {
	merged := ProviderSettings{}
	for _, prop := range properties {
		if !slices.Contains(prop.providers, provider) {
			continue
		}
		value, given := sent[prop.name]
		if !given {
			value, given = s[prop.name]
		}
		if !given || value == nil {
			continue
		}
		if why := prop.problem(value); why != "" {
			problems.Add("provider_settings."+prop.name, "%s", why)
			continue
		}
		merged[prop.name] = value
	}
	return merged
}

// problem returns what is wrong with a value of the property, or "".
func (prop property) problem(value any) string {
	if _, boolean := prop.unset.(bool); boolean {
		if _, ok := value.(bool); !ok {
			return "must be true or false"
		}
		return ""
	}
	text, ok := value.(string)
	switch {
	case !ok:
		return "must be a string"
	case prop.oneOf != nil && !slices.Contains(prop.oneOf, text):
		return "must be one of " + strings.Join(prop.oneOf, ", ")
	case prop.condition && strings.TrimSpace(text) != "":
		if _, err := condition.Parse(text); err != nil {
			return "is not a condition: " + err.Error()
		}
	}
	return tooLong(text, maxProviderText)
}

// On returns the effective settings for a repository on a provider: all properties of the provider, and the
// repository's path on its host.
func (s ProviderSettings) On(provider, repository string) map[string]any {
	all := make(map[string]any)
	for _, prop := range properties {
		if !slices.Contains(prop.providers, provider) {
			continue
		}
		all[prop.name] = prop.unset
		if value, set := s[prop.name]; set {
			all[prop.name] = value
		}
	}
	if repo, err := sourcehost.ParseRepository(repository); err == nil && provider != sourcehost.ProviderGit {
		all["repository"] = repo.Path
	}
	return all
}
