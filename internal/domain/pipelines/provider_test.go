package pipelines

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

func TestProviderSettings_EachProviderHasItsOwn(t *testing.T) {
	pushes := "build_branches build_pull_requests build_tags"
	filter := "filter_condition filter_enabled"
	statuses := "publish_commit_status publish_commit_status_per_step"
	forks := "build_pull_request_forks prefix_pull_request_fork_branch_names cancel_deleted_branch_builds skip_builds_for_existing_commits"
	base, labels, ready := "build_pull_request_base_branch_changed", "build_pull_request_labels_changed", "build_pull_request_ready_for_review"
	for provider, want := range map[string][]string{
		"git":              {filter},
		"gitlab":           {pushes, filter, statuses, forks, base, labels, ready},
		"gitlab_ee":        {pushes, filter, statuses, forks, base, labels, ready},
		"bitbucket_server": {pushes, filter, statuses, forks, base},
		"gitea":            {pushes, filter, statuses, forks, base, labels},
		"bitbucket": {pushes, filter, statuses, forks, "ignore_default_branch_pull_requests",
			"pull_request_branch_filter_configuration pull_request_branch_filter_enabled skip_pull_request_builds_for_existing_commits"},
	} {
		want := slices.Sorted(slices.Values(strings.Fields(strings.Join(want, " "))))
		if got := slices.Sorted(maps.Keys(ProviderSettings{}.On(provider, ""))); !slices.Equal(got, want) {
			t.Errorf("%s has %s, want %s", provider, got, want)
		}
	}
	for _, provider := range githubProviders {
		if got := len(ProviderSettings{}.On(provider, "")); got != len(properties) {
			t.Errorf("%s has %d properties of %d", provider, got, len(properties))
		}
	}
}

func TestProviderSettings_ShowThePathOfTheRepository(t *testing.T) {
	on := ProviderSettings{"build_tags": true}.On("github", "git@github.com:acme/app.git")
	if on["repository"] != "acme/app" || on["build_tags"] != true || on["build_branches"] != true {
		t.Errorf("got %v", on)
	}
}

func TestProviderSettings_FilterByAConditionThatCanBeRead(t *testing.T) {
	const field = "provider_settings.filter_condition"
	for condition, want := range map[string]string{
		"":                        "",
		"  ":                      "",
		"build.branch == 'main'":  "",
		"build.brunch == 'main'":  `is not a condition: column 1: there is no variable "build.brunch"; did you mean build.branch?`,
		"build.branch =~ 'main'":  `is not a condition: column 17: "=~" needs a regular expression such as /^v1/ on its right; 'main' is text`,
		strings.Repeat("!", 9000): "is not a condition: column 1: a condition must be at most 8192 bytes, found 9000",
	} {
		var problems core.Problems
		kept := ProviderSettings{}.with(map[string]any{"filter_condition": condition}, "git", &problems)
		if want == "" && (len(problems) > 0 || kept["filter_condition"] != condition) {
			t.Errorf("%q: kept %v, problems %v", condition, kept, problems)
		}
		if want != "" && (len(problems) != 1 || problems[0].Field != field || problems[0].Code != want) {
			t.Errorf("%.40q: got %v, want %s", condition, problems, want)
		}
	}
}

func TestProviderSettings_AreThoseOfTheProvider(t *testing.T) {
	var problems core.Problems
	sent := map[string]any{"build_tags": true, "trigger_mode": "none", "use_step_key_as_commit_status": 7, "filter_enabled": true}
	stored := ProviderSettings{"trigger_mode": "fork", "build_branches": false}.with(sent, "gitlab", &problems)
	want := ProviderSettings{"build_tags": true, "build_branches": false, "filter_enabled": true}
	if !maps.Equal(stored, want) || len(problems) > 0 {
		t.Errorf("stored %v, %v, want %v", stored, problems, want)
	}
	if on := (ProviderSettings{"trigger_mode": "fork", "filter_enabled": true}).On("git", ""); len(on) != 2 || on["filter_enabled"] != true {
		t.Errorf("on plain Git there is %v", on)
	}
}

// FuzzProviderSettings checks that for any input the stored settings are valid: they can be sent again and
// contain nothing else.
func FuzzProviderSettings(f *testing.F) {
	f.Add(`{"build_tags":true,"filter_condition":"x","trigger_mode":"none","unknown":[1]}`)
	f.Add(`{"build_tags":"yes","filter_enabled":null}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		var sent map[string]any
		if json.Unmarshal([]byte(text), &sent) != nil {
			return
		}
		var problems, again core.Problems
		kept := ProviderSettings{"build_tags": true}.with(sent, "github", &problems)
		if !maps.Equal(kept, ProviderSettings{}.with(kept, "github", &again)) || len(again) > 0 {
			t.Errorf("%v does not stand: %v", kept, again)
		}
		for name := range kept {
			if !slices.ContainsFunc(properties, func(p property) bool { return p.name == name }) {
				t.Errorf("%q is kept", name)
			}
		}
	})
}
