package builds

import (
	"cmp"
	"encoding/json"
	"slices"

	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// NewJobs returns the jobs of a build that was just created out of its plan, as if they had been read, in their order.
// positions are those of jobs, by id. It returns nil for builds with more than max jobs, and for matrices, which are
// better read.
func NewJobs(b *Build, p plan.Plan, steps []*flow.Step, jobs []*flow.Job, positions map[string]string, max int) ([]*Job, error) {
	if len(jobs) > max {
		return nil, nil
	}
	described := make(map[string]describedStep, len(steps))
	for _, s := range steps {
		planned := p.Steps[s.ID]
		if planned == nil {
			continue // it has no jobs
		}
		d := describedStep{label: planned.Label}
		d.StepRef = StepRef{ID: s.ID, Key: s.Key, GroupID: s.Scope, Async: s.Async, ManualRetry: manualRetry(s.Kind, s.Retry)}
		if group := described[s.Scope]; s.Scope != "" {
			d.GroupKey, d.GroupLabel = group.Key, group.label
		}
		var err error
		if d.work, err = asRead(planned.Work); err != nil {
			return nil, err
		}
		described[s.ID] = d
	}
	all := make([]*Job, len(jobs))
	for i, j := range jobs {
		planned, s := p.Jobs[j.ID], described[j.StepID]
		if planned == nil || planned.Variation != nil || planned.Matrix != nil || s.ID == "" || s.GroupID != "" && described[s.GroupID].ID == "" {
			return nil, nil
		}
		job := &Job{
			Job: *j, OrganizationID: b.OrganizationID, BuildID: b.ID, Position: positions[j.ID], Priority: planned.Priority, QueueID: planned.QueueID,
			Timeout: planned.Timeout, ParallelIndex: planned.ParallelIndex, ParallelTotal: planned.ParallelTotal,
			CreatedAt: b.CreatedAt, ScheduledAt: b.ScheduledAt,
			Step: s.StepRef, Label: s.label, Work: s.work, StepWork: s.work,
		}
		if job.ParallelIndex != nil {
			job.Label = parallelLabel(s.label, *job.ParallelIndex, *job.ParallelTotal)
		}
		all[i] = job
	}
	slices.SortFunc(all, func(a, b *Job) int { return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// asRead returns work as it is when it was stored and read: numbers in attributes have one type, for example.
func asRead(w plan.Work) (read plan.Work, err error) {
	text, err := json.Marshal(w)
	if err != nil {
		return read, err
	}
	return read, json.Unmarshal(text, &read)
}
