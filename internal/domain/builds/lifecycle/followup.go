package lifecycle

import (
	"context"
	"fmt"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// followUps are the effects of a transaction outside of its build: follow-ups for other builds, counts and events.
// They are written as tasks in the same transaction, so that a crash loses none, and the request that caused
// them does not wait: one build can cause hundreds of others.
type followUps struct {
	list   []followUp
	counts pipelines.CountChanges

	events   *events.Service // nil: events are not recorded
	happened []events.Event
}

// A followUp must happen to another build. It is idempotent.
type followUp struct {
	Kind           followUpKind `json:"do"`
	OrganizationID string       `json:"organization_id"`
	ID             string       `json:"id"` // of a trigger job, or of the build that supersedes others
}

// followUpTask is the task kind of follow-ups.
const followUpTask = "build-consequence"

type followUpKind string

const (
	startBuild     followUpKind = "start"    // create the build of a trigger job
	abandonBuild   followUpKind = "abandon"  // cancel the build of a trigger job that was canceled
	reportEnd      followUpKind = "tell-end" // report to a trigger job that its build has ended
	supersedeOlder followUpKind = "make-way" // skip or cancel older builds of a new build's branch
)

// note records the follow-ups of changes to a build.
func (f *followUps) note(b *builds.Build, changes flow.Changes) {
	for _, change := range changes.Jobs {
		if change.Job.Type != flow.Trigger || change.Job.State == change.From {
			continue
		}
		switch change.Job.State {
		case flow.Scheduled:
			f.add(startBuild, b.OrganizationID, change.Job.ID)
		case flow.Canceled:
			f.add(abandonBuild, b.OrganizationID, change.Job.ID)
		}
	}
	moved := changes.BuildStates
	if len(moved) == 0 || !moved[len(moved)-1].Ended() {
		return
	}
	if b.TriggeredBy != "" {
		f.add(reportEnd, b.OrganizationID, b.TriggeredBy)
	}
}

func (f *followUps) add(do followUpKind, orgID, id string) {
	f.list = append(f.list, followUp{do, orgID, id})
}

// save writes pipeline counts, tasks and events at the end of a transaction. Follow-ups are due immediately.
func (f *followUps) save(q *db.Q, now time.Time) error {
	f.counts.Save(q)
	due := make([]tasks.Task, len(f.list))
	for i, c := range f.list {
		due[i] = tasks.Task{Kind: followUpTask, Key: c.key(), Payload: c, RunAt: now}
	}
	if err := tasks.Add(q, due...); err != nil {
		return err
	}
	if len(f.happened) == 0 {
		return nil
	}
	return f.events.Write(q, f.happened...)
}

func (c followUp) key() string { return string(c.Kind) + " " + c.ID }

// follow runs a follow-up.
func (s *Service) follow(ctx context.Context, t *tasks.Due) error {
	var c followUp
	if err := t.Payload(&c); err != nil {
		return err
	}
	job := jobOf{c.OrganizationID, c.ID}
	switch c.Kind {
	case startBuild:
		return s.startChild(ctx, job)
	case abandonBuild:
		return s.abandonChild(ctx, job)
	case reportEnd:
		return s.endChild(ctx, job)
	case supersedeOlder:
		return s.supersede(ctx, c.OrganizationID, c.ID)
	}
	return fmt.Errorf("unknown consequence %q", c.Kind)
}

// jobOf identifies a job of an organization.
type jobOf struct{ orgID, jobID string }
