package buildapi

import (
	"encoding/json"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// visitorBuildView is a build as REST shows it to visitors.
type visitorBuildView struct {
	ID             string                  `json:"id"`
	GraphQLID      string                  `json:"graphql_id"`
	URL            string                  `json:"url"`
	WebURL         string                  `json:"web_url"`
	Number         int                     `json:"number"`
	State          flow.BuildState         `json:"state"`
	Blocked        bool                    `json:"blocked"`
	Message        *string                 `json:"message"`
	Commit         string                  `json:"commit"`
	Branch         string                  `json:"branch"`
	Author         *visitorAuthorView      `json:"author"`
	CreatedAt      core.Time               `json:"created_at"`
	ScheduledAt    core.Time               `json:"scheduled_at"`
	StartedAt      core.Time               `json:"started_at"`
	FailingAt      core.Time               `json:"failing_at"`
	FinishedAt     core.Time               `json:"finished_at"`
	Pipeline       *pipelines.PipelineView `json:"pipeline,omitempty"`
	Jobs           *[]JobView              `json:"jobs,omitempty"`
	JobStateCounts *jobStateCountsView     `json:"job_state_counts,omitempty"`
}

type visitorAuthorView struct {
	Name string `json:"name"`
}

// visitorJobView is a job of any type as REST shows it to visitors.
type visitorJobView struct {
	ID           string        `json:"id"`
	GraphQLID    string        `json:"graphql_id"`
	Type         flow.JobType  `json:"type"`
	Name         string        `json:"name"`
	Label        string        `json:"label" doc:"The same as name, which jobs of some types have and of others not."`
	State        flow.JobState `json:"state"`
	SoftFailed   bool          `json:"soft_failed"`
	ExitStatus   *int          `json:"exit_status"`
	BuildURL     string        `json:"build_url"`
	WebURL       string        `json:"web_url"`
	LogURL       string        `json:"log_url,omitempty" doc:"Of command jobs."`
	RawLogURL    string        `json:"raw_log_url,omitempty"`
	ArtifactsURL string        `json:"artifacts_url,omitempty"`
	CreatedAt    core.Time     `json:"created_at"`
	ScheduledAt  core.Time     `json:"scheduled_at"`
	RunnableAt   core.Time     `json:"runnable_at"`
	StartedAt    core.Time     `json:"started_at"`
	FinishedAt   core.Time     `json:"finished_at"`
}

func visitorView(at builds.Address, j *builds.Job) visitorJobView {
	v := visitorJobView{
		ID:          j.ID,
		GraphQLID:   core.GraphQLID("Job", j.ID),
		Type:        j.Type,
		Name:        j.Label,
		Label:       j.Label,
		State:       j.APIState(),
		SoftFailed:  j.SoftFailed,
		ExitStatus:  j.ExitStatus,
		BuildURL:    at.API(),
		WebURL:      at.Web() + "#" + j.ID,
		CreatedAt:   core.At(j.CreatedAt),
		ScheduledAt: core.At(j.ScheduledAt),
		RunnableAt:  core.At(j.RunnableAt),
		StartedAt:   core.At(j.StartedAt),
		FinishedAt:  core.At(j.FinishedAt),
	}
	if j.Type == flow.Script {
		v.LogURL, v.RawLogURL, v.ArtifactsURL = at.API("jobs", j.ID, "log"), at.API("jobs", j.ID, "log.txt"), at.API("jobs", j.ID, "artifacts")
	}
	return v
}

// shownBuildView is a build as the request's caller may see it.
type shownBuildView struct{ shape any }

// MarshalJSON writes the shape.
func (v shownBuildView) MarshalJSON() ([]byte, error) { return json.Marshal(v.shape) }

// Alternatives lists the shapes.
func (shownBuildView) Alternatives() []any { return []any{buildView{}, visitorBuildView{}} }

// shownOn returns the view for the caller who loaded the build's pipeline.
func (v buildView) shownOn(p *pipelines.Pipeline) shownBuildView {
	if !p.Visited() {
		return shownBuildView{v}
	}
	visitors := visitorBuildView{
		ID:             v.ID,
		GraphQLID:      v.GraphQLID,
		URL:            v.URL,
		WebURL:         v.WebURL,
		Number:         v.Number,
		State:          v.State,
		Blocked:        v.Blocked,
		Message:        v.Message,
		Commit:         v.Commit,
		Branch:         v.Branch,
		CreatedAt:      v.CreatedAt,
		ScheduledAt:    v.ScheduledAt,
		StartedAt:      v.StartedAt,
		FailingAt:      v.FailingAt,
		FinishedAt:     v.FinishedAt,
		Pipeline:       v.Pipeline,
		Jobs:           v.Jobs,
		JobStateCounts: v.JobStateCounts,
	}
	if v.Author != nil {
		visitors.Author = &visitorAuthorView{Name: v.Author.Name}
	}
	return shownBuildView{visitors}
}
