package buildapi

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// EventBuild returns a build as notifications show it: without its jobs.
func (s *Service) EventBuild(org *identity.Organization, p *pipelines.Pipeline, b *builds.Build, metaData map[string]string) any {
	v := s.view(&route.Request{Org: org}, p, b)
	if metaData != nil {
		v.MetaData = metaData
	}
	return v
}

// EventJob returns a job as notifications show it, where retry_source is an object. source is the job that it retries;
// nil: none.
func (s *Service) EventJob(org *identity.Organization, p *pipelines.Pipeline, b *builds.Build, j, source *builds.Job) any {
	switch v := s.jobView(&route.Request{Org: org}, p, b, j).shape.(type) {
	case commandJobView:
		return struct {
			commandJobView
			RetrySource *retrySourceView `json:"retry_source"`
		}{v, retrySourceOf(j, source)}
	case triggerJobView:
		return struct {
			triggerJobView
			RetrySource *retrySourceView `json:"retry_source"`
		}{v, retrySourceOf(j, source)}
	default:
		return v
	}
}

type retrySourceView struct {
	JobID     string         `json:"job_id"`
	RetryType flow.RetryType `json:"retry_type"`
	RetriedBy *retrierView   `json:"retried_by"`
}

type retrierView struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// retrySourceOf returns which job was retried, how and by whom; nil for a job that is no retry.
func retrySourceOf(j, source *builds.Job) *retrySourceView {
	if source == nil {
		return nil
	}
	v := &retrySourceView{JobID: source.ID, RetryType: j.RetryType}
	if by := source.RetriedBy; by != nil && j.RetryType == flow.RetryManual {
		v.RetriedBy = &retrierView{Name: by.Name, Email: by.Email}
	}
	return v
}

// eventStepView is a trigger step of a finished build.
type eventStepView struct {
	ID             string              `json:"id"`
	Key            *string             `json:"key"`
	Type           flow.JobType        `json:"type"`
	Label          string              `json:"label"`
	Async          bool                `json:"async"`
	State          flow.JobState       `json:"state"`
	JobID          string              `json:"job_id"`
	TriggeredBuild *triggeredBuildView `json:"triggered_build"`
	Detail         *string             `json:"detail"`
}

// EventSteps returns the trigger steps of a build as notifications show them, one for each of their jobs.
func (s *Service) EventSteps(org *identity.Organization, triggers []*builds.Job) any {
	list := make([]eventStepView, len(triggers))
	for i, j := range triggers {
		v := s.triggerJobView(&route.Request{Org: org}, jobBasicsView{}, j)
		list[i] = eventStepView{
			ID: j.StepID, Key: core.OrNull(j.Step.Key), Type: j.Type, Label: j.Label, Async: v.Async, State: j.APIState(),
			JobID: j.ID, TriggeredBuild: v.TriggeredBuild, Detail: v.Detail,
		}
	}
	return list
}
