// Package buildevents converts changes of builds and jobs into events, shows a build as it was at an event, and returns
// the notifications that pipelines and steps ask for with notify.
//
// It writes no events: package lifecycle does, at the end of the transaction that makes the change.
package buildevents

import (
	"errors"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// An Outline is what events of a build depend on besides its jobs.
type Outline struct {
	state   flow.BuildState
	blocked bool
}

// OutlineOf returns the outline of a build.
func OutlineOf(b *builds.Build) Outline { return Outline{b.State, b.Blocked()} }

// A Change is what changed in a build.
type Change struct {
	Build  *builds.Build // after the change
	Before Outline
	flow.Changes
	// Promises are the reasons of exit statuses that jobs promise, by job.
	Promises map[string]string
}

// Of returns the wanted events of a change, in order: a build starts before its jobs do, and ends after them.
func Of(q *db.Q, wanted events.Names, c Change) (list []events.Event, err error) {
	add := func(e events.Event) {
		if wanted.Has(e.Name) {
			list = append(list, e)
		}
	}
	var ends []events.Event
	state := c.Before.state
	for _, next := range c.BuildStates {
		switch name := buildEvent(state, next); name {
		case "":
		case events.BuildScheduled, events.BuildRunning:
			add(c.ofBuild(name, next))
		default:
			ends = append(ends, c.ofBuild(name, next))
		}
		state = next
	}
	if now := OutlineOf(c.Build); now.blocked && !c.Before.blocked && now.state == flow.BuildFailing {
		ends = append(ends, c.ofBuild(events.BuildFinished, now.state))
	}
	for _, change := range c.Jobs {
		if name := jobEvent(change); name != "" {
			add(c.ofJob(name, change.Job))
		}
		if reason, ok := c.Promises[change.Job.ID]; ok {
			e := c.ofJob(events.JobPromisedExitStatus, change.Job)
			e.Facts.PromiseReason = reason
			add(e)
		}
	}
	for _, e := range ends {
		if e.Name == events.BuildFinished && e.Facts.Build.State == flow.BuildPassed && wanted.Has(e.Name) {
			if e.Facts.Build.Fixed, err = previousFailed(q, c.Build); err != nil {
				return nil, err
			}
		}
		add(e)
	}
	return list, nil
}

// buildEvent returns the name of the event of a build that moves from a state to another, or "".
func buildEvent(from, to flow.BuildState) events.Name {
	switch to {
	case flow.BuildScheduled:
		return events.BuildScheduled
	case flow.BuildRunning:
		if from == flow.BuildFailing { // what failed is retried, and the build goes on
			return ""
		}
		return events.BuildRunning
	case flow.BuildFailing:
		return events.BuildFailing
	case flow.BuildSkipped:
		return events.BuildSkipped
	case flow.BuildBlocked, flow.BuildPassed, flow.BuildFailed, flow.BuildCanceled, flow.BuildNotRun:
		return events.BuildFinished
	}
	return ""
}

// jobEvent returns the name of the event of a job that changed, or "".
func jobEvent(c flow.JobChange) events.Name {
	j := c.Job
	switch {
	case j.State == c.From:
	case j.Type == flow.Manual && j.State == flow.Unblocked:
		return events.JobActivated
	case j.Type == flow.Script && j.State == flow.Scheduled && c.From != flow.Assigned: // returned jobs were scheduled before
		return events.JobScheduled
	case j.Type == flow.Script && j.State == flow.Running:
		return events.JobStarted
	case j.Type != flow.Script && j.Type != flow.Trigger:
	case j.State.Ended() && j.State != flow.WaitingFailed: // a retry of what failed can set it in motion again
		return events.JobFinished
	}
	return ""
}

func (c Change) ofBuild(name events.Name, state flow.BuildState) events.Event {
	b := c.Build
	facts := &events.BuildFacts{
		State:        state,
		CancelReason: b.CancelReason,
		StartedAt:    b.StartedAt,
		FailingAt:    b.FailingAt,
	}
	if state.Ended() {
		facts.FinishedAt = b.FinishedAt
	}
	if state == b.State && b.Blocked() {
		facts.Blocked = b.BlockedState()
	}
	return events.Event{
		OrganizationID: b.OrganizationID,
		Name:           name,
		PipelineID:     b.PipelineID,
		ClusterID:      b.ClusterID,
		BuildID:        b.ID,
		Branch:         b.Branch,
		Facts:          events.Facts{Build: facts},
	}
}

func (c Change) ofJob(name events.Name, j *flow.Job) events.Event {
	e := c.ofBuild(name, c.Build.State)
	e.JobID = j.ID
	e.Facts.Job = &events.JobFacts{
		State:              j.State,
		AgentID:            j.AgentID,
		ExitStatus:         j.ExitStatus,
		Signal:             j.Signal,
		SignalReason:       j.SignalReason,
		SoftFailed:         j.SoftFailed,
		PromisedExitStatus: j.PromisedExitStatus,
		PromisedAt:         j.PromisedAt,
		Retried:            j.Retried,
		RetriedIn:          j.RetriedIn,
		RunnableAt:         j.RunnableAt,
		StartedAt:          j.StartedAt,
		FinishedAt:         j.FinishedAt,
		ExpiredAt:          j.ExpiredAt,
		UnblockedAt:        j.UnblockedAt,
	}
	return e
}

// maxUnfinished bounds the builds among which the last one that passed or failed is searched.
const maxUnfinished = 100

// previousFailed reports whether the last build of the same branch before this one that passed or failed has failed.
func previousFailed(q *db.Q, b *builds.Build) (bool, error) {
	var state flow.BuildState
	err := q.QueryRow(`
		SELECT state FROM (
			SELECT number, state FROM builds WHERE pipeline_id = $1 AND branch = $2 AND number < $3 ORDER BY number DESC LIMIT $4
		) AS previous
		WHERE state IN ($5, $6) ORDER BY number DESC LIMIT 1`,
		b.PipelineID, b.Branch, b.Number, maxUnfinished, flow.BuildPassed, flow.BuildFailed).Scan(&state)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return state == flow.BuildFailed, err
}

// AsOf shows a build and, if there is one, its job as they were when an event was written.
func AsOf(facts events.Facts, b *builds.Build, j *builds.Job) {
	if f := facts.Build; f != nil {
		b.State, b.CancelReason, b.StartedAt, b.FailingAt, b.FinishedAt = f.State, f.CancelReason, f.StartedAt, f.FailingAt, f.FinishedAt
		b.Counts = flow.JobCounts{}
		switch f.Blocked {
		case definition.BlockedPassed:
			b.Counts.Blocked = 1
		case definition.BlockedFailed:
			b.Counts.Blocked, b.Counts.BlockedFailed = 1, 1
		case definition.BlockedRunning:
			b.Counts.Blocked, b.Counts.BlockedRunning = 1, 1
		}
	}
	f := facts.Job
	if f == nil || j == nil {
		return
	}
	j.State, j.AgentID, j.ExitStatus, j.Signal, j.SignalReason = f.State, f.AgentID, f.ExitStatus, f.Signal, f.SignalReason
	j.SoftFailed, j.PromisedExitStatus, j.PromisedAt = f.SoftFailed, f.PromisedExitStatus, f.PromisedAt
	j.Retried, j.RetriedIn = f.Retried, f.RetriedIn
	j.RunnableAt, j.StartedAt, j.FinishedAt, j.ExpiredAt, j.UnblockedAt = f.RunnableAt, f.StartedAt, f.FinishedAt, f.ExpiredAt, f.UnblockedAt
}
