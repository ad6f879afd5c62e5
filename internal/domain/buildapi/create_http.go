package buildapi

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/sourcehost"
)

// The limits of a request: lengths in characters, and the number of labels.
const (
	maxURL    = 2048
	maxLabels = 100
)

type buildCreate struct {
	Commit                string         `json:"commit" doc:"A SHA, a tag or another name of a commit; HEAD is the newest of the branch."`
	Branch                string         `json:"branch"`
	Message               string         `json:"message" doc:"Defaults to the commit's message, once an agent reports it."`
	Author                *builds.Author `json:"author" doc:"Who wrote the commit; the caller unless given."`
	CleanCheckout         bool           `json:"clean_checkout" doc:"Whether agents begin with an empty folder."`
	Env                   texts          `json:"env"`
	MetaData              texts          `json:"meta_data"`
	IgnoreBranchFilters   bool           `json:"ignore_pipeline_branch_filters" doc:"Whether to build although the pipeline does not build this branch. Branch filters of steps still hold."`
	PullRequestID         pullRequestID  `json:"pull_request_id"`
	PullRequestBaseBranch string         `json:"pull_request_base_branch"`
	PullRequestRepository string         `json:"pull_request_repository"`
	PullRequestLabels     []string       `json:"pull_request_labels"`
}

// pullRequestID is a number that some clients send as text.
type pullRequestID string

// UnmarshalJSON reads a positive integer, or the digits of one.
func (id *pullRequestID) UnmarshalJSON(b []byte) error {
	if string(b) == "null" || string(b) == `""` {
		return nil
	}
	text := strings.Trim(string(bytes.TrimSpace(b)), `"`)
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return fmt.Errorf("the id of a pull request is an integer")
	}
	*id = pullRequestID(strconv.FormatUint(n, 10))
	return nil
}

// JSONSchema describes the number.
func (pullRequestID) JSONSchema() map[string]any {
	return map[string]any{"type": []string{"integer", "string", "null"}}
}

func (s *Service) postBuild(r *route.Request, p *pipelines.Pipeline, body buildCreate) (shownBuildView, error) {
	c, err := body.creation(r)
	if err != nil {
		return shownBuildView{}, err
	}
	c.Organization = r.Org
	b, jobs, err := s.builds.CreateShown(r.Context(), p, c)
	if err != nil {
		return shownBuildView{}, err
	}
	if jobs == nil {
		return s.viewNow(r, p, b.ID, withAll)
	}
	counted := *p
	counted.Counts = p.Counts.Plus(lifecycle.CountsOf(b))
	metaData := c.MetaData
	if metaData == nil {
		metaData = map[string]string{}
	}
	return s.buildView(r, &counted, b, metaData, jobs, withAll, route.Budget(1, ""))
}

// creation checks a request and returns the build that it asks for.
func (body *buildCreate) creation(r *route.Request) (lifecycle.Creation, error) {
	var wrong core.Problems
	c := lifecycle.Creation{
		Commit:              strings.TrimSpace(body.Commit),
		Branch:              strings.TrimSpace(body.Branch),
		Source:              builds.FromAPI,
		Creator:             &r.Caller.User,
		IgnoreBranchFilters: body.IgnoreBranchFilters,
		MetaData:            body.MetaData,
		Details: builds.Details{
			Message:       strings.TrimSpace(body.Message),
			Env:           body.Env,
			Author:        body.Author,
			CleanCheckout: body.CleanCheckout,
		},
	}
	checkName(&wrong, "commit", c.Commit)
	checkName(&wrong, "branch", c.Branch)
	checkLength(&wrong, "message", c.Message, lifecycle.MaxMessage)
	body.checkLengths(&wrong)
	for name := range c.Env {
		if name == "" || strings.Contains(name, "=") {
			wrong.Add("env", `has a variable %q; a name cannot be empty or contain "="`, name)
		}
	}
	for key, value := range c.MetaData {
		if key == "" || utf8.RuneCountInString(key) > metadata.MaxKey {
			wrong.Add("meta_data", "must have keys of 1 to %d characters", metadata.MaxKey)
		}
		if len(value) > metadata.MaxValue {
			wrong.Add("meta_data", "has a value of %d bytes under %q; %d are the most", len(value), key, metadata.MaxValue)
		}
	}
	if c.Author == nil || *c.Author == (builds.Author{}) {
		c.Author = &builds.Author{Name: r.Caller.User.Name, Email: r.Caller.User.Email}
	}
	if body.PullRequestID != "" {
		c.PullRequest = &builds.PullRequest{
			ID:         string(body.PullRequestID),
			Base:       body.PullRequestBaseBranch,
			Repository: sourcehost.WithoutCredentials(body.PullRequestRepository), // checkouts do not use it
			Labels:     body.PullRequestLabels,
		}
	}
	return c, wrong.Err()
}

// checkLengths notes which of the optional names are too long.
func (body *buildCreate) checkLengths(wrong *core.Problems) {
	if a := body.Author; a != nil {
		checkLength(wrong, "author.username", a.Username, lifecycle.MaxName)
		checkLength(wrong, "author.name", a.Name, lifecycle.MaxName)
		checkLength(wrong, "author.email", a.Email, lifecycle.MaxName)
	}
	checkLength(wrong, "pull_request_base_branch", body.PullRequestBaseBranch, lifecycle.MaxName)
	checkLength(wrong, "pull_request_repository", body.PullRequestRepository, maxURL)
	if n := len(body.PullRequestLabels); n > maxLabels {
		wrong.Add("pull_request_labels", "must be at most %d, not %d", maxLabels, n)
	}
	for _, label := range body.PullRequestLabels {
		checkLength(wrong, "pull_request_labels", label, lifecycle.MaxName)
	}
}

// checkName notes when a text that must be given is missing or too long for a name.
func checkName(wrong *core.Problems, field, text string) {
	if text == "" {
		wrong.Add(field, "is required")
	}
	checkLength(wrong, field, text, lifecycle.MaxName)
}

func checkLength(wrong *core.Problems, field, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		wrong.Add(field, "must have at most %d characters, not %d", most, n)
	}
}

// A PageBuild is a build that is asked for on a page.
type PageBuild struct {
	Commit, Branch, Message string
	Env, MetaData           map[string]string
}

// CreateFromPage creates a build that the request's caller asks for on a page.
func (s *Service) CreateFromPage(r *route.Request, p *pipelines.Pipeline, b PageBuild) (*builds.Build, error) {
	c, err := (&buildCreate{Commit: b.Commit, Branch: b.Branch, Message: b.Message, Env: b.Env, MetaData: b.MetaData}).creation(r)
	if err != nil {
		return nil, err
	}
	c.Source = builds.FromUI
	return s.builds.Create(r.Context(), p, c)
}
