// Package report describes a build and its jobs to the senders of notifications, each of which converts a [Build] into
// what one kind of system understands. It decides what senders would otherwise decide differently: how a job or a
// build ended ([Result]) and when a job ran ([Times]).
package report

import (
	"cmp"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// A Build is a build with what belongs to it.
type Build struct {
	*builds.Build
	Org      *identity.Organization
	Pipeline *pipelines.Pipeline
	URL      string // of its page
	// Parent is the page of the build that triggered this one; empty: none, or it was deleted.
	Parent string
	// Jobs are the command and trigger jobs in their order, each attempt, without what they do.
	Jobs []*builds.Job
	// More is set when the build has more jobs than were read.
	More bool
}

// JobURL returns the URL of a job on the page of its build.
func (b *Build) JobURL(j *builds.Job) string { return b.URL + "#" + j.ID }

// MaxJobs bounds the jobs that are read of a build.
const MaxJobs = 5000

// Of describes a build without its jobs.
func Of(s *builds.Reader, org *identity.Organization, p *pipelines.Pipeline, b *builds.Build) *Build {
	build := &Build{Build: b, Org: org, Pipeline: p, URL: s.Address(org, p, b.Number).Web()}
	if parent := b.TriggeringBuild; parent.ID != "" {
		build.Parent = s.AddressOf(org, parent).Web()
	}
	return build
}

// LoadJobs reads the jobs of a build that match a filter, at most as many as given. Their commands can be long, so they
// are read in pages and not kept.
func (b *Build) LoadJobs(q *db.Q, s *builds.Reader, f builds.JobFilter, most int) error {
	b.Jobs, b.More = nil, false
	page := route.CursorPage{Size: min(250, most)}
	for {
		jobs, err := builds.ListJobs(q, b.ID, f, page)
		if core.KindOf(err) == core.BadRequest && page.Size > 1 { // the page has too many bytes
			page.Size = max(page.Size/4, 1)
			continue
		}
		if err != nil {
			return err
		}
		more := len(jobs) > page.Size
		jobs = jobs[:min(len(jobs), page.Size)]
		if err := s.FillAgentNames(q, b.OrganizationID, jobs...); err != nil {
			return err
		}
		for _, j := range jobs {
			page.After = core.Cursor{j.Position, j.ID}
			if j.Type != flow.Script && j.Type != flow.Trigger {
				continue
			}
			if len(b.Jobs) == most {
				b.More = true
				return nil
			}
			j.Label = Name(j)
			j.Work, j.StepWork = plan.Work{}, plan.Work{}
			b.Jobs = append(b.Jobs, j)
		}
		if !more {
			return nil
		}
	}
}

// maxName bounds the names of jobs, in characters.
const maxName = 255

// Name returns what people call a job: its label, or else what it does.
func Name(j *builds.Job) string {
	name, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(j.Label, j.Work.Command)), "\n")
	if name == "" && j.Work.Trigger != nil {
		name = "Trigger " + j.Work.Trigger.Pipeline
	}
	return core.Cut(cmp.Or(name, j.Step.Key, string(j.Type)), maxName)
}

// A Result is how a job or a build ended.
type Result string

// The results. Failure is that of a command, Error that of the system which should run it.
const (
	Success  Result = "success"
	Failure  Result = "failure"
	Error    Result = "error"
	TimedOut Result = "timeout"
	Canceled Result = "cancellation"
	Skipped  Result = "skip"
)

// Bad reports whether the result is an error for people.
func (r Result) Bad() bool { return r == Failure || r == Error || r == TimedOut }

// BuildResult returns how a build ended.
func BuildResult(state flow.BuildState) Result {
	switch state {
	case flow.BuildPassed:
		return Success
	case flow.BuildCanceled:
		return Canceled
	case flow.BuildSkipped, flow.BuildNotRun:
		return Skipped
	default:
		return Failure
	}
}

// JobResult returns how a job ended.
func JobResult(j *builds.Job) Result {
	switch {
	case j.Passed():
		return Success
	case j.State == flow.TimedOut:
		return TimedOut
	case j.State == flow.Canceled:
		return Canceled
	case j.State == flow.Expired, j.State == flow.Broken && j.Unreachable:
		return Error
	case j.State == flow.Finished && systemFailures[j.SignalReason]:
		return Error
	case j.State == flow.Finished:
		return Failure
	default:
		return Skipped
	}
}

// systemFailures are the signal reasons of jobs that no command of theirs has ended.
var systemFailures = map[string]bool{
	"agent_incompatible": true,
	"agent_lost":         true,
	"agent_refused":      true,
	"agent_stop":         true,
	"process_run_error":  true,
	"signature_rejected": true,
	"stack_error":        true,
}

// Times returns when a job began and ended, and how long it waited for an agent. Jobs that ended before they could run,
// such as one that expired, begin when they end; ok is false for jobs without an end.
func Times(j *builds.Job) (start, end time.Time, queued time.Duration, ok bool) {
	end = j.FinishedAt
	if end.IsZero() {
		end = j.ExpiredAt
	}
	if end.IsZero() {
		return start, end, 0, false
	}
	start = j.StartedAt
	if start.IsZero() || start.After(end) {
		start = end
	}
	if !j.RunnableAt.IsZero() && start.After(j.RunnableAt) {
		queued = start.Sub(j.RunnableAt)
	}
	return start, end, queued, true
}

// Times returns when a build began and ended. A build that never ran begins when it was created.
func (b *Build) Times() (start, end time.Time) {
	start = b.StartedAt
	if start.IsZero() {
		start = b.CreatedAt
	}
	if end = b.FinishedAt; end.Before(start) {
		end = start
	}
	return start, end
}
