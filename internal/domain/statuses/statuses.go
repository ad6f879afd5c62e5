// Package statuses shows the states of builds and jobs at their commits on source hosts.
//
// A consumer of events writes the newest state of each context of a commit into one row (consume.go); a state of an
// older build or event never replaces a newer one, and an equal one changes nothing. A task for each row sends what was not
// sent (send.go). States that follow each other faster than a host answers are therefore sent once, and a crash at any
// point sends the newest state.
//
// Which host and which credentials are package connections' business; how a host is called is package sourcehost's.
package statuses

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// Service sets commit statuses.
type Service struct{ Parts }

// Parts are the dependencies of a Service.
type Parts struct {
	DB          *db.DB
	Directory   *identity.Directory
	Events      *events.Service
	Builds      *builds.Reader
	Connections *connections.Service
	Clock       core.Clock
	Log         *slog.Logger
}

// New returns a Service that consumes events.
func New(p Parts) *Service {
	s := &Service{p}
	p.Events.Consume(events.Consumer{
		Name: connections.StatusConsumer, Names: connections.BuildStatusEvents | connections.JobStatusEvents, Process: s.process,
	})
	return s
}

// Background registers the work of the package.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(sendTask, tasks.Limits{Timeout: sendTimeout, AtOnce: atOnce}, s.send)
	r.Sweep(removeTask, time.Hour, s.removeOld)
}

// A Status is the newest state of a context at a commit.
type Status struct {
	ID             string
	OrganizationID string
	Repository     string // host and path
	Commit         string
	Context        string
	BuildID        string
	JobID          string // empty: it is about the whole build
	Version        int64  // number of the event
	State          sourcehost.State
	Description    string
	URL            string
	UpdatedAt      time.Time

	SentVersion int64 // 0: none
	SentAt      time.Time
	Attempts    int    // that failed in a row
	Error       string // of the last attempt
}

// host returns the host of a status as connections name it.
func (s *Status) host() string {
	host, _, _ := strings.Cut(s.Repository, "/")
	return host
}

// maxJobContexts bounds the statuses of the jobs of a build. The status of the build is about the others, too.
const maxJobContexts = 100

// buildState returns the state and the description of a build. A blocked build counts as what its block step says,
// unless the pipeline publishes it as pending.
func buildState(b *builds.Build, p *pipelines.Pipeline) (sourcehost.State, string) {
	name := "Build #" + strconv.Itoa(b.Number)
	if b.Blocked() {
		state := sourcehost.StateBlocked
		if !p.Flag("publish_blocked_as_pending") {
			switch b.BlockedState() {
			case definition.BlockedPassed:
				state = sourcehost.StatePassed
			case definition.BlockedFailed:
				state = sourcehost.StateFailed
			}
		}
		return state, name + " is blocked"
	}
	switch b.State {
	case flow.BuildCreating, flow.BuildScheduled:
		return sourcehost.StatePending, name + " is scheduled"
	case flow.BuildFailing:
		return sourcehost.StateRunning, name + " is failing"
	case flow.BuildPassed:
		return sourcehost.StatePassed, name + " passed" + took(b.StartedAt, b.FinishedAt)
	case flow.BuildFailed:
		return sourcehost.StateFailed, name + " failed" + took(b.StartedAt, b.FinishedAt)
	case flow.BuildCanceled:
		return sourcehost.StateCanceled, name + " was canceled"
	case flow.BuildSkipped:
		return sourcehost.StateCanceled, name + " was skipped"
	case flow.BuildNotRun:
		return sourcehost.StatePassed, name + " had nothing to run"
	}
	return sourcehost.StateRunning, name + " is running"
}

func took(from, to time.Time) string {
	if from.IsZero() || to.Before(from) {
		return ""
	}
	return " after " + to.Sub(from).Round(time.Second).String()
}

// jobState returns the state and the description of a command job; an empty state for jobs that never ran.
func jobState(b *builds.Build, j *builds.Job) (sourcehost.State, string) {
	name := "Build #" + strconv.Itoa(b.Number) + ": the job "
	switch j.State {
	case flow.Scheduled, flow.Assigned, flow.Accepted:
		return sourcehost.StatePending, name + "is scheduled"
	case flow.Running:
		return sourcehost.StateRunning, name + "is running"
	case flow.Finished:
		switch {
		case j.Passed():
			return sourcehost.StatePassed, name + "passed" + took(j.StartedAt, j.FinishedAt)
		case j.SoftFailed:
			return sourcehost.StatePassed, name + "failed softly"
		}
		return sourcehost.StateFailed, name + "failed" + exit(j)
	case flow.TimedOut:
		return sourcehost.StateFailed, name + "timed out"
	case flow.Expired:
		return sourcehost.StateFailed, name + "expired"
	case flow.Canceled:
		return sourcehost.StateCanceled, name + "was canceled"
	}
	return "", ""
}

func exit(j *builds.Job) string {
	if j.ExitStatus == nil {
		return ""
	}
	return " with exit status " + strconv.Itoa(*j.ExitStatus)
}

// stepState returns the state and the description of a step.
func stepState(b *builds.Build, step *builds.Step) (sourcehost.State, string) {
	name := "Build #" + strconv.Itoa(b.Number) + ": the step "
	if step.State != builds.StepFinished {
		if step.State == builds.StepRunning || step.State == builds.StepFailing {
			return sourcehost.StateRunning, name + "is running"
		}
		return sourcehost.StatePending, name + "is scheduled"
	}
	switch step.Outcome {
	case builds.StepHardFailed, builds.StepErrored:
		return sourcehost.StateFailed, name + "failed"
	}
	return sourcehost.StatePassed, name + "passed"
}

// buildContext is the context of the builds of a pipeline.
func buildContext(p *pipelines.Pipeline, b *builds.Build) string {
	context := "stackyard/" + p.Slug
	if b.PullRequest != nil && p.Flag("separate_pull_request_statuses") {
		context += "/pr"
	}
	return context
}

// jobContext is the context of a job below that of its build: the key or the label of its step, and the number of a
// parallel job.
func jobContext(p *pipelines.Pipeline, b *builds.Build, j *builds.Job) string {
	name := contextName(j.Label)
	if key := j.Step.Key; key != "" && (name == "" || p.Flag("use_step_key_as_commit_status")) {
		name = contextName(key)
	}
	if name == "" {
		name = contextName(core.Cut(j.Work.Command, maxContextName))
	}
	if name == "" {
		name = "step"
	}
	if j.ParallelIndex != nil {
		name += "-" + strconv.Itoa(*j.ParallelIndex+1)
	}
	return buildContext(p, b) + "/" + name
}

// maxContextName bounds the part of a context that a label makes, in bytes.
const maxContextName = 80

// contextName returns a label in lower case with hyphens: letters, digits and some marks stay.
func contextName(label string) string {
	var name strings.Builder
	hyphen := false
	for _, r := range strings.ToLower(label) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '.':
			if hyphen && name.Len() > 0 {
				name.WriteByte('-')
			}
			hyphen = false
			name.WriteRune(r)
		default:
			hyphen = true
		}
		if name.Len() >= maxContextName {
			break
		}
	}
	return name.String()
}
