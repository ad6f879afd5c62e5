package builds

import (
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// Visitors of a public pipeline see reduced copies of its builds and jobs. They see logs, artifacts and
// annotations in full. Package pipelines decides who is a visitor and reduces pipelines (visitor.go there).

// Shown returns the build as the caller who loaded the pipeline can see it.
func (b *Build) Shown(p *pipelines.Pipeline) *Build {
	if !p.Visited() {
		return b
	}
	v := &Build{
		ID:             b.ID,
		OrganizationID: b.OrganizationID,
		PipelineID:     b.PipelineID,
		Number:         b.Number,
		Branch:         b.Branch,
		Commit:         b.Commit,
		CreatedAt:      b.CreatedAt,
		ScheduledAt:    b.ScheduledAt,
		Build: flow.Build{
			State:      b.State,
			Counts:     b.Counts, // has the state that a blocked build shows
			StartedAt:  b.StartedAt,
			FailingAt:  b.FailingAt,
			FinishedAt: b.FinishedAt,
		},
		Details: Details{Message: b.Message},
	}
	if b.Author != nil && b.Author.Name != "" {
		v.Author = &Author{Name: b.Author.Name}
	}
	return v
}

// Shown returns the job as the caller who loaded the pipeline can see it.
func (j *Job) Shown(p *pipelines.Pipeline) *Job {
	if !p.Visited() {
		return j
	}
	return &Job{
		Job: flow.Job{
			ID:           j.ID,
			Type:         j.Type,
			State:        j.State,
			Unreachable:  j.Unreachable,
			ExitStatus:   j.ExitStatus,
			SoftFailed:   j.SoftFailed,
			PromiseFails: j.PromiseFails,
			RunnableAt:   j.RunnableAt,
			StartedAt:    j.StartedAt,
			FinishedAt:   j.FinishedAt,
		},
		OrganizationID: j.OrganizationID,
		BuildID:        j.BuildID,
		Label:          j.Label,
		CreatedAt:      j.CreatedAt,
		ScheduledAt:    j.ScheduledAt,
	}
}

// Hidden returns a NotFound error to visitors.
func (o OnBuild) Hidden() error { return hidden(o.Pipeline, noBuild) }

// Hidden returns a NotFound error to visitors.
func (o OnJob) Hidden() error { return hidden(o.Pipeline, noJob) }

func hidden(p *pipelines.Pipeline, notFound string) error {
	if p.Visited() {
		return core.Errorf(core.NotFound, "%s", notFound)
	}
	return nil
}
