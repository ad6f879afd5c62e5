package hooks

import (
	"strings"
	"testing"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/rules/hookpayload"
)

const sha = "6dcb09b5b57875f334f61aebed695e2e4193db5e"

var app = hookpayload.Repository{Path: "acme/app", URLs: []string{"https://github.com/acme/app.git"}}

func push(branch string) hookpayload.Event {
	return hookpayload.Event{Kind: hookpayload.Push, Name: "push", Repository: app, Branch: branch, Commit: sha, Message: "Pour"}
}

func tag(name string) hookpayload.Event {
	return hookpayload.Event{Kind: hookpayload.Tag, Name: "push", Repository: app, Tag: name, Commit: sha}
}

func pull(branch string, change hookpayload.Change) hookpayload.Event {
	return hookpayload.Event{Kind: hookpayload.PullRequest, Name: "pull_request", Action: string(change), Repository: app, Branch: branch, Commit: sha,
		Pull: &hookpayload.Pull{Number: "7", Change: change, Base: "main", Head: app, Owner: "acme", Labels: []string{"ci"}}}
}

func fork(branch string) hookpayload.Event {
	e := pull(branch, hookpayload.ChangeOpened)
	e.Pull.Fork, e.Pull.Owner, e.Pull.Head = true, "eve", hookpayload.Repository{Path: "eve/app", URLs: []string{"https://github.com/eve/app.git"}}
	return e
}

func mergeGroup(kind hookpayload.Kind) hookpayload.Event {
	return hookpayload.Event{Kind: kind, Name: "merge_group", Action: "checks_requested", Repository: app, Branch: "gh-readonly-queue/main/pr-7", Commit: sha,
		Queue: &hookpayload.Queue{BaseBranch: "main", BaseCommit: sha}}
}

func with(e hookpayload.Event, edit func(*hookpayload.Event)) hookpayload.Event {
	edit(&e)
	return e
}

type settings = pipelines.ProviderSettings

// Every provider setting that decides about builds has a row in which it builds and one in which it does not.
func TestDecide(t *testing.T) {
	deleted := with(push("tea"), func(e *hookpayload.Event) { e.Deleted, e.Commit = true, "" })
	for name, c := range map[string]struct {
		settings settings
		edit     func(*pipelines.Pipeline)
		event    hookpayload.Event
		built    bool   // there is a build of the commit
		want     string // the branch that is built, or the reason
		cancel   string
	}{
		"branch":                              {nil, nil, push("tea"), false, "build tea", ""},
		"build_branches off":                  {settings{"build_branches": false}, nil, push("tea"), false, "build_branches is off", ""},
		"branch_configuration matches":        {nil, func(p *pipelines.Pipeline) { p.BranchConfiguration = "main release/*" }, push("release/1"), false, "build release/1", ""},
		"branch_configuration does not match": {nil, func(p *pipelines.Pipeline) { p.BranchConfiguration = "main release/*" }, push("feature/x"), false, "branch feature/x does not match branch_configuration main release/*", ""},
		"existing commit":                     {nil, nil, push("tea"), true, "build tea", ""},
		"skip_builds_for_existing_commits":    {settings{"skip_builds_for_existing_commits": true}, nil, push("tea"), true, "there is a build of commit " + sha + ", and skip_builds_for_existing_commits is on", ""},
		"tag":                                 {nil, nil, tag("v1"), false, "build_tags is off", ""},
		"build_tags":                          {settings{"build_tags": true}, nil, tag("v1"), false, "build v1", ""},
		"build_tags ignores branch filters":   {settings{"build_tags": true}, func(p *pipelines.Pipeline) { p.BranchConfiguration = "main" }, tag("v1"), false, "build v1", ""},

		"pull request opened":         {nil, nil, pull("tea", hookpayload.ChangeOpened), false, "build tea", ""},
		"pull request gets commits":   {nil, nil, pull("tea", hookpayload.ChangeCommits), false, "build tea", ""},
		"pull request closed":         {nil, nil, pull("tea", hookpayload.ChangeClosed), false, "the action closed of a pull request does not start builds", ""},
		"pull request not filtered":   {nil, func(p *pipelines.Pipeline) { p.BranchConfiguration = "main" }, pull("tea", hookpayload.ChangeOpened), false, "build tea", ""},
		"build_pull_requests off":     {settings{"build_pull_requests": false}, nil, pull("tea", hookpayload.ChangeOpened), false, "build_pull_requests is off", ""},
		"labels":                      {nil, nil, pull("tea", hookpayload.ChangeLabels), true, "build_pull_request_labels_changed is off", ""},
		"labels on":                   {settings{"build_pull_request_labels_changed": true}, nil, pull("tea", hookpayload.ChangeLabels), true, "build tea", ""},
		"ready":                       {nil, nil, pull("tea", hookpayload.ChangeReady), true, "build_pull_request_ready_for_review is off", ""},
		"ready on":                    {settings{"build_pull_request_ready_for_review": true}, nil, pull("tea", hookpayload.ChangeReady), true, "build tea", ""},
		"base":                        {nil, nil, pull("tea", hookpayload.ChangeBase), true, "build_pull_request_base_branch_changed is off", ""},
		"base on":                     {settings{"build_pull_request_base_branch_changed": true}, nil, pull("tea", hookpayload.ChangeBase), true, "build tea", ""},
		"default branch":              {nil, nil, pull("main", hookpayload.ChangeOpened), false, "build main", ""},
		"default branch ignored":      {settings{"ignore_default_branch_pull_requests": true}, nil, pull("main", hookpayload.ChangeOpened), false, "pull request 7 is from the default branch main, and ignore_default_branch_pull_requests is on", ""},
		"pull request filter off":     {settings{"pull_request_branch_filter_configuration": "feature/*"}, nil, pull("tea", hookpayload.ChangeOpened), false, "build tea", ""},
		"pull request filter":         {settings{"pull_request_branch_filter_enabled": true, "pull_request_branch_filter_configuration": "feature/*"}, nil, pull("tea", hookpayload.ChangeOpened), false, "branch tea does not match pull_request_branch_filter_configuration feature/*", ""},
		"pull request filter matches": {settings{"pull_request_branch_filter_enabled": true, "pull_request_branch_filter_configuration": "feature/*"}, nil, pull("feature/x", hookpayload.ChangeOpened), false, "build feature/x", ""},
		"existing commit of a pull request": {nil, nil, pull("tea", hookpayload.ChangeCommits), true,
			"there is a build of commit " + sha + ", and skip_pull_request_builds_for_existing_commits is on", ""},
		"existing commit of a pull request is built": {settings{"skip_pull_request_builds_for_existing_commits": false}, nil, pull("tea", hookpayload.ChangeCommits), true, "build tea", ""},

		"fork":                {nil, nil, fork("tea"), false, "pull request 7 is from the fork eve/app, and build_pull_request_forks is off", ""},
		"fork allowed":        {settings{"build_pull_request_forks": true}, nil, fork("tea"), false, "build eve:tea", ""},
		"fork without prefix": {settings{"build_pull_request_forks": true, "prefix_pull_request_fork_branch_names": false}, nil, fork("tea"), false, "build tea", ""},

		"merge group":                     {nil, nil, mergeGroup(hookpayload.MergeGroup), false, "build_merge_group_checks_requested is off", ""},
		"merge group on":                  {settings{"build_merge_group_checks_requested": true}, nil, mergeGroup(hookpayload.MergeGroup), false, "build gh-readonly-queue/main/pr-7", ""},
		"push of a merge group":           {settings{"build_merge_group_checks_requested": true}, nil, push("gh-readonly-queue/main/pr-7"), false, "belongs to a merge queue", ""},
		"merge group destroyed":           {nil, nil, mergeGroup(hookpayload.MergeGroupFinished), false, "the merge group gh-readonly-queue/main/pr-7 is gone", ""},
		"merge group destroyed, canceled": {settings{"cancel_when_merge_group_destroyed": true}, nil, mergeGroup(hookpayload.MergeGroupFinished), false, "its builds were canceled", "gh-readonly-queue/main/pr-7"},
		"branch deleted":                  {nil, nil, deleted, false, "the branch tea was deleted", ""},
		"branch deleted, canceled":        {settings{"cancel_deleted_branch_builds": true}, nil, deleted, false, "its builds were canceled", "tea"},
		"tag deleted":                     {settings{"build_tags": true}, nil, with(tag("v1"), func(e *hookpayload.Event) { e.Deleted = true }), false, "the tag v1 was deleted", ""},

		"skip":          {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Message = "Typo [skip ci]" }), false, "the commit message has [skip ci]", ""},
		"skip, swapped": {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Message = "Typo\n\n[CI SKIP]" }), false, "the commit message has [CI SKIP]", ""},
		"skip, hyphen":  {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Message = "[ci-skip]" }), false, "the commit message has [ci-skip]", ""},
		"skip, both":    {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Message = "[skip-ci]" }), false, "the commit message has [skip-ci]", ""},
		"no skip":       {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Message = "skip ci" }), false, "build tea", ""},

		"condition off":              {settings{"filter_condition": `build.branch == "main"`}, nil, push("tea"), false, "build tea", ""},
		"condition holds":            {settings{"filter_enabled": true, "filter_condition": `build.source_event == "push" && build.branch =~ /^te/`}, nil, push("tea"), false, "build tea", ""},
		"condition does not hold":    {settings{"filter_enabled": true, "filter_condition": `build.branch == "main"`}, nil, push("tea"), false, `filter_condition does not hold: build.branch == "main"`, ""},
		"condition on pull requests": {settings{"filter_enabled": true, "filter_condition": `build.pull_request.labels includes "ci" && build.pull_request.base_branch == "main" && !build.pull_request.repository.fork`}, nil, pull("tea", hookpayload.ChangeOpened), false, "build tea", ""},
		"condition on drafts":        {settings{"filter_enabled": true, "filter_condition": `!build.pull_request.draft`}, nil, with(pull("tea", hookpayload.ChangeOpened), func(e *hookpayload.Event) { e.Pull.Draft = true }), false, "filter_condition does not hold", ""},
		"condition on merge queues":  {settings{"filter_enabled": true, "filter_condition": `build.merge_queue.base_branch == "main"`, "build_merge_group_checks_requested": true}, nil, mergeGroup(hookpayload.MergeGroup), false, "build gh-readonly-queue/main/pr-7", ""},

		"trigger_mode none":             {settings{"trigger_mode": "none"}, nil, push("tea"), false, "trigger_mode is none", ""},
		"trigger_mode deployment":       {settings{"trigger_mode": "deployment"}, nil, push("tea"), false, "trigger_mode is deployment, so the event push is not built", ""},
		"trigger_mode deployment built": {settings{"trigger_mode": "deployment"}, nil, hookpayload.Event{Kind: hookpayload.Deployment, Name: "deployment", Repository: app, Branch: "main", Commit: sha}, false, "build main", ""},
		"trigger_mode code, deployment": {nil, nil, hookpayload.Event{Kind: hookpayload.Deployment, Name: "deployment", Repository: app, Branch: "main", Commit: sha}, false, "trigger_mode is code, so the event deployment is not built", ""},
		"trigger_mode fork":             {settings{"trigger_mode": "fork"}, nil, hookpayload.Event{Kind: hookpayload.Fork, Name: "fork", Repository: app}, false, "build main", ""},

		"ping":        {nil, nil, hookpayload.Event{Kind: hookpayload.Ping}, false, "this is a ping: the webhook works", ""},
		"other event": {nil, nil, hookpayload.Event{Kind: hookpayload.Other, Name: "issues", Action: "opened", Repository: app}, false, "the event issues opened does not start builds", ""},
		"archived":    {nil, func(p *pipelines.Pipeline) { p.ArchivedAt = time.Unix(1, 0) }, push("tea"), false, "the pipeline is archived", ""},
		"switched off": {nil, func(p *pipelines.Pipeline) {
			p.SourceWebhooks.DisabledAt, p.SourceWebhooks.DisabledBy = time.Unix(1, 0), "Ada"
		}, push("tea"), false, "Ada switched off the processing of webhooks", ""},
		"another repository": {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Repository = fork("x").Pull.Head }), false, "the delivery is for the repository eve/app; the pipeline builds git@github.com:acme/app.git", ""},
		"without URLs":       {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Repository = hookpayload.Repository{Path: "ACME/app"} }), false, "build tea", ""},
		"no repository":      {nil, nil, with(push("tea"), func(e *hookpayload.Event) { e.Repository = hookpayload.Repository{} }), false, "the delivery is for the repository without a name", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pipelines.Pipeline{Repository: "git@github.com:acme/app.git", Provider: "github", DefaultBranch: "main", ProviderSettings: c.settings}
			if c.edit != nil {
				c.edit(p)
			}
			got := Decide(p, c.event, c.built)
			what := got.Reason
			if got.Build != nil {
				what = "build " + got.Build.Branch
			}
			if got.Cancel != c.cancel || !strings.Contains(what, c.want) || strings.HasPrefix(c.want, "build ") && what != c.want {
				t.Errorf("got %q, cancel %q; want %q, cancel %q", what, got.Cancel, c.want, c.cancel)
			}
		})
	}
}

func TestDecide_ComparesMergeGroupsWithTheirBaseCommit(t *testing.T) {
	for on, want := range map[bool]string{false: "", true: sha} {
		p := &pipelines.Pipeline{Repository: "https://github.com/acme/app", Provider: "github", DefaultBranch: "main",
			ProviderSettings: settings{"build_merge_group_checks_requested": true, "use_merge_group_base_commit_for_git_diff_base": on}}
		if got := Decide(p, mergeGroup(hookpayload.MergeGroup), false).Build.SourceEvent.DiffBase; got != want {
			t.Errorf("%t: %q", on, got)
		}
	}
}

// Settings of pull requests act on each host that has them.
func TestDecide_BuildsForksOfEachHostOnlyIfAllowed(t *testing.T) {
	for _, host := range []string{"github", "github_enterprise", "gitlab", "gitlab_ee", "bitbucket", "bitbucket_server", "gitea"} {
		p := &pipelines.Pipeline{Repository: "https://github.com/acme/app", Provider: host, DefaultBranch: "main"}
		if got := Decide(p, fork("tea"), false); got.Build != nil || !strings.Contains(got.Reason, "build_pull_request_forks is off") {
			t.Errorf("%s: %+v", host, got)
		}
		p.ProviderSettings = settings{"build_pull_request_forks": true}
		if got := Decide(p, fork("tea"), false); got.Build == nil || got.Build.Branch != "eve:tea" || !got.Build.SourceEvent.Fork {
			t.Errorf("%s: %+v", host, got)
		}
	}
}

func TestDecide_MarksBuildsOfForks(t *testing.T) {
	p := &pipelines.Pipeline{Repository: "https://github.com/acme/app", Provider: "github", DefaultBranch: "main", ProviderSettings: settings{"build_pull_request_forks": true}}
	got := Decide(p, fork("tea"), false).Build
	if pr := got.PullRequest; !*pr.Fork || pr.Repository != "https://github.com/eve/app.git" || !got.SourceEvent.Fork {
		t.Errorf("%+v %+v", got.PullRequest, got.SourceEvent)
	}
}
