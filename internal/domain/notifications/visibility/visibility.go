// Package visibility describes finished builds and jobs to the pipeline events API of Datadog CI Visibility.
package visibility

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/platform/core"
)

// URL returns where a site of the vendor takes pipeline events. The application of a site has a name of its own,
// which people know better than that of the API. base replaces the site's API; empty: it does not.
func URL(base, site string) string {
	if base == "" {
		base = "https://api." + strings.TrimPrefix(site, "app.")
	}
	return strings.TrimSuffix(base, "/") + "/api/v2/ci/pipeline"
}

// Header returns the headers of requests.
func Header(s notifications.PipelineVisibilitySettings) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set(KeyHeader, s.APIKey)
	return h
}

// KeyHeader is the header with the key of the API.
const KeyHeader = "DD-API-KEY"

// Body returns the event of a finished build, or of one of its jobs if there is one.
func Body(s notifications.PipelineVisibilitySettings, b *report.Build, j *builds.Job) ([]byte, error) {
	a := attributes{Provider: "stackyard", Env: tag(s.Tags, "env"), Service: tag(s.Tags, "service")}
	if j == nil {
		a.Resource = ofBuild(s, b)
	} else {
		job, ok := ofJob(s, b, j)
		if !ok {
			return nil, fmt.Errorf("job %s has not ended", j.ID)
		}
		a.Resource = job
	}
	return json.Marshal(map[string]any{"data": map[string]any{"type": "cipipeline_resource_request", "attributes": a}})
}

// tag returns the value of a tag; empty: there is none.
func tag(tags []string, name string) string {
	for _, t := range tags {
		if value, ok := strings.CutPrefix(t, name+":"); ok {
			return value
		}
	}
	return ""
}

type attributes struct {
	Env      string `json:"env,omitempty"`
	Service  string `json:"service,omitempty"`
	Provider string `json:"provider_name"`
	Resource any    `json:"resource"`
}

// common is what builds and jobs have in common.
type common struct {
	Level     string   `json:"level"`
	Name      string   `json:"name"`
	URL       string   `json:"url"`
	Start     string   `json:"start"`
	End       string   `json:"end"`
	Status    string   `json:"status"`
	QueueTime int64    `json:"queue_time,omitempty"` // in milliseconds
	Git       *git     `json:"git,omitempty"`
	Error     *failure `json:"error,omitempty"`
	Tags      []string `json:"tags,omitempty"`
}

type pipelineRun struct {
	common
	UniqueID        string `json:"unique_id"`
	PipelineID      string `json:"pipeline_id"`
	PartialRetry    bool   `json:"partial_retry"`
	IsManual        bool   `json:"is_manual"`
	ParentPipeline  *link  `json:"parent_pipeline,omitempty"`
	PreviousAttempt *link  `json:"previous_attempt,omitempty"`
}

type jobRun struct {
	common
	ID               string `json:"id"`
	PipelineUniqueID string `json:"pipeline_unique_id"`
	PipelineName     string `json:"pipeline_name"`
	Node             *node  `json:"node,omitempty"`
}

type link struct {
	ID  string `json:"id"`
	URL string `json:"url,omitempty"`
}

type node struct {
	Name string `json:"name"`
}

type failure struct {
	Domain  string `json:"domain"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

type git struct {
	Repository  string `json:"repository_url"`
	SHA         string `json:"sha"`
	AuthorEmail string `json:"author_email"`
	AuthorName  string `json:"author_name,omitempty"`
	Branch      string `json:"branch,omitempty"`
	Tag         string `json:"tag,omitempty"`
	Default     string `json:"default_branch,omitempty"`
	Message     string `json:"message,omitempty"`
}

// maxMessage bounds the message of a commit, in characters.
const maxMessage = 2000

// statuses are the vendor's names of results.
var statuses = map[report.Result]string{
	report.Success:  "success",
	report.Failure:  "error",
	report.Error:    "error",
	report.TimedOut: "error",
	report.Canceled: "canceled",
	report.Skipped:  "skipped",
}

func ofBuild(s notifications.PipelineVisibilitySettings, b *report.Build) pipelineRun {
	start, end := b.Times()
	result := report.BuildResult(b.State)
	run := pipelineRun{
		common: common{
			Level: "pipeline", Name: b.Pipeline.Name, URL: b.URL, Start: timeText(start), End: timeText(end), Status: statuses[result],
			QueueTime: max(start.Sub(b.CreatedAt).Milliseconds(), 0), Git: gitOf(b), Tags: s.Tags,
		},
		UniqueID:   b.ID,
		PipelineID: b.ID,
		IsManual:   b.Source == builds.FromUI || b.Source == builds.FromAPI,
	}
	if result.Bad() {
		run.Error = &failure{Domain: "user", Type: "failed_jobs", Message: "The build " + string(b.State)}
	}
	if parent := b.TriggeringBuild; parent.ID != "" {
		run.ParentPipeline = &link{ID: parent.ID, URL: b.Parent}
	}
	if b.RebuiltFrom != "" {
		run.PreviousAttempt = &link{ID: b.RebuiltFrom}
	}
	return run
}

func ofJob(s notifications.PipelineVisibilitySettings, b *report.Build, j *builds.Job) (run jobRun, ok bool) {
	start, end, queued, ok := report.Times(j)
	if !ok {
		return run, false
	}
	result := report.JobResult(j)
	run = jobRun{
		common: common{
			Level: "job", Name: report.Name(j), URL: b.JobURL(j), Start: timeText(start), End: timeText(end), Status: statuses[result],
			QueueTime: queued.Milliseconds(), Git: gitOf(b), Tags: s.Tags,
		},
		ID:               j.ID,
		PipelineUniqueID: b.ID,
		PipelineName:     b.Pipeline.Name,
	}
	if result.Bad() {
		run.Error = failureOf(j, result)
	}
	if name := cmp.Or(j.AgentName(), j.AgentID); name != "" {
		run.Node = &node{Name: name}
	}
	return run, true
}

// failureOf says what went wrong with a job, and whether that is for its users or for those who run the agents.
func failureOf(j *builds.Job, result report.Result) *failure {
	f := &failure{Domain: "user", Type: cmp.Or(j.SignalReason, j.Signal, string(j.APIState())), Message: "The job " + strings.ReplaceAll(string(j.APIState()), "_", " ")}
	if result == report.Error {
		f.Domain = "provider"
	}
	if j.ExitStatus != nil {
		f.Message += fmt.Sprintf(" with exit status %d", *j.ExitStatus)
	}
	if j.Detail != "" {
		f.Message += ": " + core.Cut(j.Detail, maxMessage)
	}
	return f
}

var fullSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)

// gitOf returns what is known of the commit; nil when that is less than the vendor requires.
func gitOf(b *report.Build) *git {
	g := &git{Repository: b.Pipeline.Repository, SHA: b.Commit, Default: b.Pipeline.DefaultBranch, Message: core.Cut(b.Message, maxMessage)}
	switch {
	case b.Author != nil && b.Author.Email != "":
		g.AuthorName, g.AuthorEmail = b.Author.Name, b.Author.Email
	case b.Creator != nil:
		g.AuthorName, g.AuthorEmail = b.Creator.Name, b.Creator.Email
	}
	if !fullSHA.MatchString(g.SHA) || g.Repository == "" || g.AuthorEmail == "" {
		return nil
	}
	if b.Tag != "" {
		g.Tag = b.Tag
	} else {
		g.Branch = b.Branch
	}
	return g
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
