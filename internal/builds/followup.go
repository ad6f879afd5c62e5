package builds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"stackyard/internal/db"
	"stackyard/internal/flow"
	"stackyard/internal/pipelines"
	"stackyard/internal/tasks"
)

// followUps are what a unit of work leads to outside of its build: consequences for other builds, and
// what the clock is to do. All of it is written as tasks in the transaction of the unit, so that neither
// a crash nor a database that goes away loses any, and so that the request that causes it does not wait
// for it: one build can have hundreds of others follow.
type followUps struct {
	consequences []consequence
	begin        []tasks.Task        // at the time given, or earlier if that was asked for before
	reset        []tasks.Task        // at the time given and no other
	drop         map[string][]string // keys of tasks that are pointless now, by their kind
	task         *tasks.Due          // the one that the unit of work does; nil: none
	counts       pipelines.CountChanges
}

// A consequence is something that must happen to another build. It can be done twice without harm.
type consequence struct {
	Do             deed   `json:"do"`
	OrganizationID string `json:"organization_id"`
	ID             string `json:"id"` // of a trigger job, or of the build that makes others pointless
}

// consequenceTask is the kind of tasks that are consequences.
const consequenceTask = "build-consequence"

type deed string

const (
	startBuild   deed = "start"    // make the build of a trigger job
	abandonBuild deed = "abandon"  // cancel the build of a trigger job that was canceled
	tellEnd      deed = "tell-end" // tell a trigger job that its build has ended
	makeWay      deed = "make-way" // skip or cancel older builds of a new build's branch
)

// note takes down what follows from the changes to a build.
func (f *followUps) note(b *Build, changes flow.Changes) {
	for _, change := range changes.Jobs {
		if change.Job.Type != flow.Trigger || change.Job.State == change.From {
			continue
		}
		switch change.Job.State {
		case flow.Scheduled:
			f.cause(startBuild, b.OrganizationID, change.Job.ID)
		case flow.Canceled:
			f.cause(abandonBuild, b.OrganizationID, change.Job.ID)
		}
	}
	moved := changes.BuildStates
	if len(moved) == 0 || !moved[len(moved)-1].Ended() {
		return
	}
	f.forget(expiryTask, b.ID)
	if b.TriggeredBy != "" {
		f.cause(tellEnd, b.OrganizationID, b.TriggeredBy)
	}
}

func (f *followUps) cause(do deed, orgID, id string) {
	f.consequences = append(f.consequences, consequence{do, orgID, id})
}

// forget removes a task, unless it is the one being done, which ends by itself.
func (f *followUps) forget(kind, key string) {
	if f.task != nil && f.task.Kind == kind && f.task.Key == key {
		return
	}
	if f.drop == nil {
		f.drop = make(map[string][]string)
	}
	f.drop[kind] = append(f.drop[kind], key)
}

// save writes the counts of pipelines and the tasks at the end of a transaction. The consequences are due
// now.
func (f *followUps) save(q *db.Q, now time.Time) error {
	if err := f.counts.Save(q); err != nil {
		return err
	}
	for _, c := range f.consequences {
		f.begin = append(f.begin, tasks.Task{Kind: consequenceTask, Key: c.key(), Payload: c, RunAt: now})
	}
	if err := tasks.Add(q, f.begin...); err != nil {
		return err
	}
	if err := tasks.Set(q, f.reset...); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(f.drop)) {
		if err := tasks.Remove(q, kind, f.drop[kind]...); err != nil {
			return err
		}
	}
	return nil
}

func (c consequence) key() string { return string(c.Do) + " " + c.ID }

// follow does what follows from a unit of work for another build.
func (s *Service) follow(ctx context.Context, t *tasks.Due) error {
	var c consequence
	if err := t.Payload(&c); err != nil {
		return err
	}
	job := jobOf{c.OrganizationID, c.ID}
	switch c.Do {
	case startBuild:
		return s.startChild(ctx, job)
	case abandonBuild:
		return s.abandonChild(ctx, job)
	case tellEnd:
		return s.endChild(ctx, job)
	case makeWay:
		return s.supersede(ctx, c.OrganizationID, c.ID)
	}
	return fmt.Errorf("unknown consequence %q", c.Do)
}

// jobOf names a job of an organization.
type jobOf struct{ orgID, jobID string }
