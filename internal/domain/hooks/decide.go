package hooks

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/hookpayload"
)

// A Decision says what to do about an event.
type Decision struct {
	Build  *lifecycle.Creation // nil: nothing is built
	Cancel string              // the branch whose builds are canceled; empty: none
	Reason string              // why nothing is built, in one sentence
}

// ignored returns the decision not to build.
func ignored(format string, args ...any) Decision {
	return Decision{Reason: fmt.Sprintf(format, args...)}
}

// Decide decides whether an event is built, according to the settings of the pipeline. commitBuilt is whether the
// pipeline has a build of the event's commit. Decide is pure.
func Decide(p *pipelines.Pipeline, e hookpayload.Event, commitBuilt bool) Decision {
	if reason := refusal(p, e); reason != "" {
		return Decision{Reason: reason}
	}
	if e.Deleted || e.Kind == hookpayload.MergeGroupFinished {
		return decideCancel(p, e)
	}
	for _, rule := range rules {
		if reason := rule(p, e, commitBuilt); reason != "" {
			return Decision{Reason: reason}
		}
	}
	c := creation(p, e)
	if reason := filtered(p, c); reason != "" {
		return Decision{Reason: reason}
	}
	return Decision{Build: c}
}

// refusal returns why no event of the kind is built, or "".
func refusal(p *pipelines.Pipeline, e hookpayload.Event) string {
	switch mode := p.Text("trigger_mode"); {
	case e.Kind == hookpayload.Ping:
		return "this is a ping: the webhook works"
	case p.Archived():
		return "the pipeline is archived"
	case !p.SourceWebhooks.Enabled():
		return fmt.Sprintf("%s switched off the processing of webhooks", cmp.Or(p.SourceWebhooks.DisabledBy, "someone"))
	case !sameRepository(p.Repository, e.Repository):
		return fmt.Sprintf("the delivery is for the repository %s; the pipeline builds %s", cmp.Or(e.Repository.Path, "without a name"), p.Repository)
	case e.Kind == hookpayload.Other:
		return fmt.Sprintf("the event %s does not start builds", strings.TrimSpace(e.Name+" "+e.Action))
	case mode == "none":
		return "trigger_mode is none"
	case (mode == "deployment") != (e.Kind == hookpayload.Deployment), (mode == "fork") != (e.Kind == hookpayload.Fork):
		return fmt.Sprintf("trigger_mode is %s, so the event %s is not built", mode, e.Name)
	}
	return ""
}

// sameRepository reports whether an event is about the repository that a pipeline builds. Hosts that send no URLs are
// compared by the path.
func sameRepository(repository string, from hookpayload.Repository) bool {
	for _, u := range from.URLs {
		if sourcehost.SameRepository(u, repository) {
			return true
		}
	}
	if len(from.URLs) > 0 || from.Path == "" {
		return false
	}
	own, err := sourcehost.ParseRepository(repository)
	return err == nil && strings.EqualFold(strings.TrimPrefix(own.Path, "scm/"), from.Path)
}

// decideCancel decides about events after which builds are not needed any more.
func decideCancel(p *pipelines.Pipeline, e hookpayload.Event) Decision {
	switch {
	case e.Kind == hookpayload.MergeGroupFinished && p.Flag("cancel_when_merge_group_destroyed"):
		return Decision{Cancel: e.Branch, Reason: fmt.Sprintf("the merge group %s is gone; its builds were canceled", e.Branch)}
	case e.Kind == hookpayload.MergeGroupFinished:
		return ignored("the merge group %s is gone", e.Branch)
	case e.Kind == hookpayload.Tag:
		return ignored("the tag %s was deleted", e.Tag)
	case p.Flag("cancel_deleted_branch_builds"):
		return Decision{Cancel: e.Branch, Reason: fmt.Sprintf("the branch %s was deleted; its builds were canceled", e.Branch)}
	}
	return ignored("the branch %s was deleted", e.Branch)
}

// rules return why an event is not built, or "". The first reason counts.
var rules = []func(p *pipelines.Pipeline, e hookpayload.Event, commitBuilt bool) string{
	pushRule, tagRule, mergeGroupRule, pullRequestRule, skipRule,
}

func pushRule(p *pipelines.Pipeline, e hookpayload.Event, commitBuilt bool) string {
	switch {
	case e.Kind != hookpayload.Push:
		return ""
	case !p.Flag("build_branches"):
		return "build_branches is off"
	case strings.HasPrefix(e.Branch, "gh-readonly-queue/") && p.Flag("build_merge_group_checks_requested"):
		return fmt.Sprintf("the branch %s belongs to a merge queue, which asks for its builds itself", e.Branch)
	case !core.BranchFilter(p.BranchConfiguration).Match(e.Branch):
		return fmt.Sprintf("branch %s does not match branch_configuration %s", e.Branch, p.BranchConfiguration)
	case commitBuilt && p.Flag("skip_builds_for_existing_commits"):
		return fmt.Sprintf("there is a build of commit %s, and skip_builds_for_existing_commits is on", e.Commit)
	}
	return ""
}

func tagRule(p *pipelines.Pipeline, e hookpayload.Event, _ bool) string {
	if e.Kind == hookpayload.Tag && !p.Flag("build_tags") {
		return "build_tags is off"
	}
	return ""
}

func mergeGroupRule(p *pipelines.Pipeline, e hookpayload.Event, _ bool) string {
	if e.Kind == hookpayload.MergeGroup && !p.Flag("build_merge_group_checks_requested") {
		return "build_merge_group_checks_requested is off"
	}
	return ""
}

// changeSettings names the setting that each change of a pull request needs besides build_pull_requests.
var changeSettings = map[hookpayload.Change]string{
	hookpayload.ChangeOpened:  "",
	hookpayload.ChangeCommits: "",
	hookpayload.ChangeLabels:  "build_pull_request_labels_changed",
	hookpayload.ChangeReady:   "build_pull_request_ready_for_review",
	hookpayload.ChangeBase:    "build_pull_request_base_branch_changed",
}

func pullRequestRule(p *pipelines.Pipeline, e hookpayload.Event, commitBuilt bool) string {
	pr := e.Pull
	if e.Kind != hookpayload.PullRequest || pr == nil {
		return ""
	}
	setting, builds := changeSettings[pr.Change]
	switch {
	case !p.Flag("build_pull_requests"):
		return "build_pull_requests is off"
	case !builds:
		return fmt.Sprintf("the action %s of a pull request does not start builds", e.Action)
	case setting != "" && !p.Flag(setting):
		return setting + " is off"
	case pr.Fork && !p.Flag(pipelines.BuildForks):
		return fmt.Sprintf("pull request %s is from the fork %s, and build_pull_request_forks is off", pr.Number, cmp.Or(pr.Head.Path, "that was deleted"))
	case !pr.Fork && e.Branch == p.DefaultBranch && p.Flag("ignore_default_branch_pull_requests"):
		return fmt.Sprintf("pull request %s is from the default branch %s, and ignore_default_branch_pull_requests is on", pr.Number, e.Branch)
	case p.Flag("pull_request_branch_filter_enabled") && !core.BranchFilter(p.Text("pull_request_branch_filter_configuration")).Match(e.Branch):
		return fmt.Sprintf("branch %s does not match pull_request_branch_filter_configuration %s", e.Branch, p.Text("pull_request_branch_filter_configuration"))
	case setting == "" && commitBuilt && p.Flag("skip_pull_request_builds_for_existing_commits"):
		return fmt.Sprintf("there is a build of commit %s, and skip_pull_request_builds_for_existing_commits is on", e.Commit)
	}
	return ""
}

var skipWords = regexp.MustCompile(`(?i)\[(ci[ -]skip|skip[ -]ci)\]`)

func skipRule(_ *pipelines.Pipeline, e hookpayload.Event, _ bool) string {
	if word := skipWords.FindString(e.Message); word != "" {
		return "the commit message has " + word
	}
	return ""
}

// creation returns the build of an event.
func creation(p *pipelines.Pipeline, e hookpayload.Event) *lifecycle.Creation {
	c := &lifecycle.Creation{
		Commit:              cmp.Or(e.Commit, "HEAD"),
		Branch:              cmp.Or(e.Branch, e.Tag, p.DefaultBranch), // a tag is built as the branch of its name
		Source:              builds.FromWebhook,
		IgnoreBranchFilters: true, // pushRule has matched them
	}
	c.Message, c.Tag = e.Message, e.Tag
	c.SourceEvent = &builds.SourceEvent{Name: e.Name, Action: e.Action}
	if a := e.Author; a != (hookpayload.Person{}) {
		c.Author = &builds.Author{Username: a.Username, Name: a.Name, Email: a.Email}
	}
	if m := e.Queue; m != nil {
		c.SourceEvent.MergeQueue = &builds.MergeQueue{BaseBranch: m.BaseBranch, BaseCommit: m.BaseCommit}
		if p.Flag("use_merge_group_base_commit_for_git_diff_base") {
			c.SourceEvent.DiffBase = m.BaseCommit
		}
	}
	if pr := e.Pull; pr != nil {
		c.SourceEvent.Fork = pr.Fork
		c.PullRequest = &builds.PullRequest{ID: pr.Number, Base: pr.Base, Labels: pr.Labels, Label: pr.Label, Draft: &pr.Draft, Fork: &pr.Fork}
		if len(pr.Head.URLs) > 0 {
			c.PullRequest.Repository = sourcehost.WithoutCredentials(pr.Head.URLs[0])
		}
		if pr.Fork && pr.Owner != "" && p.Flag("prefix_pull_request_fork_branch_names") {
			c.Branch = pr.Owner + ":" + e.Branch
		}
	}
	return c
}

// filtered returns why the pipeline's condition does not hold for a build, or "".
func filtered(p *pipelines.Pipeline, c *lifecycle.Creation) string {
	text := p.Text("filter_condition")
	if !p.Flag("filter_enabled") || strings.TrimSpace(text) == "" {
		return ""
	}
	parsed, err := condition.Parse(text)
	if err != nil {
		return "filter_condition is not valid: " + err.Error()
	}
	in := &condition.Context{
		Build: condition.Build{
			Branch:       c.Branch,
			Commit:       c.Commit,
			Tag:          core.OrNull(c.Tag),
			Message:      core.OrNull(c.Message),
			Source:       string(c.Source),
			SourceEvent:  core.OrNull(c.SourceEvent.Name),
			SourceAction: core.OrNull(c.SourceEvent.Action),
			MergeQueue:   c.SourceEvent.MergeQueue.Condition(),
		},
		Pipeline:     condition.Pipeline{ID: p.ID, Slug: p.Slug, DefaultBranch: p.DefaultBranch, Repository: p.Repository},
		Organization: condition.Organization{ID: p.OrganizationID},
	}
	if a := c.Author; a != nil {
		in.Build.Author = &condition.Person{Name: a.Name, Email: a.Email}
	}
	if c.PullRequest != nil {
		in.Build.PullRequest = c.PullRequest.Condition()
	}
	if !parsed.Eval(in) {
		return "filter_condition does not hold: " + core.Cut(text, 200)
	}
	return ""
}
