package pipelines

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/rules/condition"
)

// ProviderSettings are the properties that were set of how a source host and a pipeline work together.
type ProviderSettings map[string]any

// A property is one of the provider settings.
type property struct {
	name string
	// unset is the value where none was set; its type, bool or string, is the property's.
	unset any
	// providers have the property.
	providers []string
	// oneOf are the values that a string may have; nil: any.
	oneOf []string
	// condition says that a string which is not blank must be one.
	condition bool
}

var (
	githubs  = []string{sourcehost.ProviderGitHub, sourcehost.ProviderGitHubEnterprise}
	statuses = append([]string{sourcehost.ProviderBitbucket}, githubs...)
	pushers  = append([]string{sourcehost.ProviderBitbucketServer, sourcehost.ProviderGitLab, sourcehost.ProviderGitLabEE, sourcehost.ProviderGitea}, statuses...)
	everyone = append([]string{sourcehost.ProviderGit}, pushers...)
)

// properties are the provider settings there are. The specification names those of the first two
// groups; the others are what existing clients send for GitHub.
var properties = []property{
	{name: "filter_enabled", unset: false, providers: everyone},
	{name: "filter_condition", unset: "", providers: everyone, condition: true},
	{name: "build_branches", unset: true, providers: pushers},
	{name: "build_pull_requests", unset: true, providers: pushers},
	{name: "build_tags", unset: false, providers: pushers},

	{name: "ignore_default_branch_pull_requests", unset: false, providers: statuses},
	{name: "publish_commit_status", unset: true, providers: statuses},
	{name: "publish_commit_status_per_step", unset: false, providers: statuses},
	{name: "pull_request_branch_filter_enabled", unset: false, providers: statuses},
	{name: "pull_request_branch_filter_configuration", unset: "", providers: statuses},
	{name: "skip_pull_request_builds_for_existing_commits", unset: true, providers: statuses},

	{name: "trigger_mode", unset: "code", providers: githubs, oneOf: []string{"code", "deployment", "fork", "none"}},
	{name: "build_merge_group_checks_requested", unset: false, providers: githubs},
	{name: "build_pull_request_base_branch_changed", unset: false, providers: githubs},
	{name: "build_pull_request_forks", unset: false, providers: githubs},
	{name: "build_pull_request_labels_changed", unset: false, providers: githubs},
	{name: "build_pull_request_ready_for_review", unset: false, providers: githubs},
	{name: "cancel_deleted_branch_builds", unset: false, providers: githubs},
	{name: "cancel_when_merge_group_destroyed", unset: false, providers: githubs},
	{name: "prefix_pull_request_fork_branch_names", unset: true, providers: githubs},
	{name: "publish_blocked_as_pending", unset: false, providers: githubs},
	{name: "separate_pull_request_statuses", unset: false, providers: githubs},
	{name: "skip_builds_for_existing_commits", unset: false, providers: githubs},
	{name: "use_merge_group_base_commit_for_git_diff_base", unset: false, providers: githubs},
	{name: "use_step_key_as_commit_status", unset: false, providers: githubs},
}

// maxProviderText is the length of the longest text among provider settings, in characters.
const maxProviderText = 8192

// with returns the settings of a provider with those that were sent set, where null takes one back to its
// default. It notes what has a wrong type. What is not a property of the provider is ignored: clients send
// back what they read, newer ones know more, and the repository may have moved.
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
		if why := prop.refuse(value); why != "" {
			problems.Add("provider_settings."+prop.name, "%s", why)
			continue
		}
		merged[prop.name] = value
	}
	return merged
}

// refuse says what is wrong with a value of the property, or nothing.
func (prop property) refuse(value any) string {
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

// On returns what holds for a repository on a provider: the properties that the provider has, and the
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
