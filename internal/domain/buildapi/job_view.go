package buildapi

import (
	"encoding/json"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/jobusage"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// JobView is a job in responses. Its shape depends on the type of the job.
type JobView struct{ shape any }

// MarshalJSON writes the shape.
func (v JobView) MarshalJSON() ([]byte, error) { return json.Marshal(v.shape) }

// Alternatives lists the shapes.
func (JobView) Alternatives() []any {
	return []any{commandJobView{}, blockJobView{}, waitJobView{}, triggerJobView{}, visitorJobView{}}
}

// jobBasicsView is what jobs of all types show.
type jobBasicsView struct {
	ID           string        `json:"id"`
	GraphQLID    string        `json:"graphql_id"`
	Type         flow.JobType  `json:"type" doc:"script for command jobs, manual for block jobs, waiter for wait steps, trigger for trigger steps."`
	StepKey      *string       `json:"step_key"`
	GroupKey     *string       `json:"group_key" doc:"The key of the group that the step is in."`
	Step         jobStepView   `json:"step"`
	State        flow.JobState `json:"state"`
	BuildURL     string        `json:"build_url"`
	WebURL       string        `json:"web_url"`
	BrokenReason *string       `json:"broken_reason"`
	CreatedAt    core.Time     `json:"created_at"`
}

type jobStepView struct {
	ID        string             `json:"id"`
	Signature *stepSignatureView `json:"signature"`
}

type stepSignatureView struct {
	Value        string   `json:"value"`
	Algorithm    string   `json:"algorithm"`
	SignedFields []string `json:"signed_fields"`
}

// jobAttemptView is what jobs show that can be tried again.
type jobAttemptView struct {
	Name               string             `json:"name"`
	SoftFailed         bool               `json:"soft_failed"`
	ExitStatus         *int               `json:"exit_status"`
	ScheduledAt        core.Time          `json:"scheduled_at" doc:"When it is meant to run."`
	RunnableAt         core.Time          `json:"runnable_at" doc:"When nothing held it back any more."`
	StartedAt          core.Time          `json:"started_at"`
	FinishedAt         core.Time          `json:"finished_at"`
	Retried            bool               `json:"retried"`
	RetriedInJobID     *string            `json:"retried_in_job_id"`
	RetriesCount       *int               `json:"retries_count"`
	RetrySource        *string            `json:"retry_source" doc:"Always null; see retry_source_job_id."`
	RetrySourceJobID   *string            `json:"retry_source_job_id" doc:"The attempt before."`
	RetryType          *string            `json:"retry_type" doc:"How the job was retried: manual or automatic."`
	RetriedBy          *identity.UserView `json:"retried_by"`
	ParallelGroupIndex *int               `json:"parallel_group_index"`
	ParallelGroupTotal *int               `json:"parallel_group_total"`
}

type commandJobView struct {
	jobBasicsView
	jobAttemptView
	Priority              jobPriorityView `json:"priority"`
	AgentQueryRules       []string        `json:"agent_query_rules"`
	LogURL                string          `json:"log_url"`
	RawLogURL             string          `json:"raw_log_url"`
	ArtifactsURL          string          `json:"artifacts_url"`
	Command               string          `json:"command"`
	Signal                *string         `json:"signal"`
	SignalReason          *string         `json:"signal_reason"`
	ArtifactPaths         *string         `json:"artifact_paths"`
	ExpiredAt             core.Time       `json:"expired_at"`
	ConcurrencyWaitTimeMS *int64          `json:"concurrency_wait_time_ms"`
	Matrix                jobMatrix       `json:"matrix"`
	Agent                 *jobAgentView   `json:"agent"`
	ClusterID             *string         `json:"cluster_id"`
	ClusterURL            *string         `json:"cluster_url"`
	ClusterQueueID        *string         `json:"cluster_queue_id"`
	ClusterQueueURL       *string         `json:"cluster_queue_url"`
	PromisedExitStatus    *int            `json:"promised_exit_status,omitempty" doc:"What the job has declared that it will end with."`
	PromisedExitStatusAt  core.Time       `json:"promised_exit_status_at,omitzero"`
	Detail                *string         `json:"detail" doc:"Why it ended in this state."`
	ResourceUsage         *jobusage.Usage `json:"resource_usage,omitempty" doc:"What it used, if its agent reported that; shown for one job and in the list of a build's jobs."`
}

// using returns the view with what the job used.
func (v JobView) using(u *jobusage.Usage) JobView {
	if command, ok := v.shape.(commandJobView); ok {
		command.ResourceUsage = u
		v.shape = command
	}
	return v
}

// jobMatrix are the values that a job of a matrix has: by dimension, or one alone; null for others.
type jobMatrix struct{ values any }

// MarshalJSON writes the values.
func (m jobMatrix) MarshalJSON() ([]byte, error) { return json.Marshal(m.values) }

// JSONSchema describes the values.
func (jobMatrix) JSONSchema() map[string]any {
	return map[string]any{"type": []string{"object", "string", "null"}}
}

type jobPriorityView struct {
	Number int `json:"number"`
}

type jobAgentView struct {
	ID   string `json:"id"`
	URL  string `json:"url"`
	Name string `json:"name"`
}

type blockJobView struct {
	jobBasicsView
	Label       string             `json:"label"`
	Prompt      string             `json:"prompt" doc:"What the person who unblocks it is told."`
	Fields      []blockFieldView   `json:"fields" doc:"What the person is asked for."`
	UnblockedBy *identity.UserView `json:"unblocked_by"`
	UnblockedAt core.Time          `json:"unblocked_at"`
	Unblockable bool               `json:"unblockable"`
	UnblockURL  string             `json:"unblock_url"`
}

type blockFieldView struct {
	Key      string   `json:"key" doc:"The key of the value in meta-data."`
	Label    string   `json:"label"`
	Hint     string   `json:"hint"`
	Required bool     `json:"required"`
	Default  []string `json:"default"`
	Options  []string `json:"options" doc:"The values to choose from; empty for a text."`
	Multiple bool     `json:"multiple" doc:"Whether several options can be chosen, one a line."`
}

func blockFieldViews(fields []definition.Field) []blockFieldView {
	views := []blockFieldView{}
	for _, f := range fields {
		v := blockFieldView{Key: f.Key, Label: f.Label, Hint: f.Hint, Required: f.Required, Default: append([]string{}, f.Default...), Options: []string{}, Multiple: f.Multiple}
		for _, o := range f.Options {
			v.Options = append(v.Options, o.Value)
		}
		views = append(views, v)
	}
	return views
}

type waitJobView struct {
	jobBasicsView
	FinishedAt core.Time `json:"finished_at"`
}

type triggerJobView struct {
	jobBasicsView
	jobAttemptView
	Label          string              `json:"label"`
	Async          bool                `json:"async" doc:"Whether the job passes as soon as the build exists."`
	TriggeredBuild *triggeredBuildView `json:"triggered_build"`
	Detail         *string             `json:"detail" doc:"Why no build was created."`
}

type triggeredBuildView struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	URL    string `json:"url"`
	WebURL string `json:"web_url"`
}

// jobView returns the view of a job for the caller who loaded the pipeline.
func (s *Service) jobView(r *route.Request, p *pipelines.Pipeline, b *builds.Build, j *builds.Job) JobView {
	at := s.builds.Address(r.Org, p, b.Number)
	if p.Visited() {
		return JobView{visitorView(at, j.Shown(p))}
	}
	basics := jobBasicsView{
		ID:           j.ID,
		GraphQLID:    core.GraphQLID("Job", j.ID),
		Type:         j.Type,
		StepKey:      core.OrNull(j.Step.Key),
		GroupKey:     core.OrNull(j.Step.GroupKey),
		Step:         jobStepView{ID: j.StepID, Signature: signatureOf(j.Work)},
		State:        j.APIState(),
		BuildURL:     at.API(),
		WebURL:       at.Web() + "#" + j.ID,
		BrokenReason: core.OrNull(j.BrokenReason),
		CreatedAt:    core.At(j.CreatedAt),
	}
	switch j.Type {
	case flow.Manual:
		var manual definition.Manual
		if j.Work.Manual != nil {
			manual = *j.Work.Manual
		}
		return JobView{blockJobView{
			jobBasicsView: basics,
			Label:         j.Label,
			Prompt:        manual.Prompt,
			Fields:        blockFieldViews(manual.Fields),
			UnblockedBy:   j.UnblockedBy.View(s.public),
			UnblockedAt:   core.At(j.UnblockedAt),
			Unblockable:   j.State == flow.Blocked,
			UnblockURL:    at.API("jobs", j.ID, "unblock"),
		}}
	case flow.Waiter:
		return JobView{waitJobView{jobBasicsView: basics, FinishedAt: core.At(j.FinishedAt)}}
	case flow.Trigger:
		return JobView{s.triggerJobView(r, basics, j)}
	default:
		return JobView{s.commandJobView(r, at, basics, b, j)}
	}
}

func (s *Service) jobAttemptView(j *builds.Job) jobAttemptView {
	return jobAttemptView{
		Name:               j.Label,
		SoftFailed:         j.SoftFailed,
		ExitStatus:         j.ExitStatus,
		ScheduledAt:        core.At(j.ScheduledAt),
		RunnableAt:         core.At(j.RunnableAt),
		StartedAt:          core.At(j.StartedAt),
		FinishedAt:         core.At(j.FinishedAt),
		Retried:            j.Retried,
		RetriedInJobID:     core.OrNull(j.RetriedIn),
		RetriesCount:       core.OrNull(j.RetriesCount),
		RetrySourceJobID:   core.OrNull(j.RetryOf),
		RetryType:          core.OrNull(string(j.RetryType)),
		RetriedBy:          j.RetriedBy.View(s.public),
		ParallelGroupIndex: j.ParallelIndex,
		ParallelGroupTotal: j.ParallelTotal,
	}
}

func (s *Service) triggerJobView(r *route.Request, basics jobBasicsView, j *builds.Job) triggerJobView {
	v := triggerJobView{
		jobBasicsView:  basics,
		jobAttemptView: s.jobAttemptView(j),
		Label:          j.Label,
		Async:          j.Step.Async,
		Detail:         core.OrNull(j.Detail),
	}
	if c := j.Child; c.ID != "" {
		at := s.builds.AddressOf(r.Org, c)
		v.TriggeredBuild = &triggeredBuildView{ID: c.ID, Number: c.Number, URL: at.API(), WebURL: at.Web()}
	}
	return v
}

func (s *Service) commandJobView(r *route.Request, at builds.Address, basics jobBasicsView, b *builds.Build, j *builds.Job) commandJobView {
	v := commandJobView{
		jobBasicsView:        basics,
		jobAttemptView:       s.jobAttemptView(j),
		Priority:             jobPriorityView{j.Priority},
		AgentQueryRules:      append([]string{}, j.Work.Agents...),
		LogURL:               at.API("jobs", j.ID, "log"),
		RawLogURL:            at.API("jobs", j.ID, "log.txt"),
		ArtifactsURL:         at.API("jobs", j.ID, "artifacts"),
		Command:              j.Work.Command,
		Signal:               core.OrNull(j.Signal),
		SignalReason:         core.OrNull(j.SignalReason),
		ArtifactPaths:        core.OrNull(j.Work.ArtifactPaths),
		ExpiredAt:            core.At(j.ExpiredAt),
		Matrix:               jobMatrix{j.Matrix},
		ClusterID:            core.OrNull(b.ClusterID),
		ClusterQueueID:       core.OrNull(j.QueueID),
		PromisedExitStatus:   j.PromisedExitStatus,
		PromisedExitStatusAt: core.At(j.PromisedAt),
		Detail:               core.OrNull(j.Detail),
	}
	if j.AgentName() != "" {
		v.Agent = &jobAgentView{ID: j.AgentID, URL: s.public.Org(r.Org.Slug, "agents", j.AgentID), Name: j.AgentName()}
	}
	if j.ConcurrencyWait != nil {
		ms := j.ConcurrencyWait.Milliseconds()
		v.ConcurrencyWaitTimeMS = &ms
	}
	if b.ClusterID != "" {
		v.ClusterURL = core.OrNull(s.public.Org(r.Org.Slug, "clusters", b.ClusterID))
		if j.QueueID != "" {
			v.ClusterQueueURL = core.OrNull(s.public.Org(r.Org.Slug, "clusters", b.ClusterID, "queues", j.QueueID))
		}
	}
	return v
}

// signatureOf returns the signature of a step, nil when it has none.
func signatureOf(w plan.Work) *stepSignatureView {
	signed, ok := w.Attributes["signature"].(map[string]any)
	if !ok {
		return nil
	}
	v := &stepSignatureView{SignedFields: []string{}}
	v.Value, _ = signed["value"].(string)
	v.Algorithm, _ = signed["algorithm"].(string)
	fields, _ := signed["signed_fields"].([]any)
	for _, field := range fields {
		if name, ok := field.(string); ok {
			v.SignedFields = append(v.SignedFields, name)
		}
	}
	return v
}
