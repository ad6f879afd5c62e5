// Package reporttest has a finished build for tests of senders.
package reporttest

import (
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// The ids of the build, its steps and its jobs.
const (
	BuildID  = "0190c0de-0000-7000-8000-00000000000b"
	LintStep = "0190c0de-0000-7000-8000-000000000051"
	TestStep = "0190c0de-0000-7000-8000-000000000052"
	LintJob  = "0190c0de-0000-7000-8000-000000000061"
	LostJob  = "0190c0de-0000-7000-8000-000000000062"
	TestJob  = "0190c0de-0000-7000-8000-000000000063"
	SkipJob  = "0190c0de-0000-7000-8000-000000000064"
)

// Start is when the build was created.
var Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Failed returns a build that took a minute: lint passed, the first attempt at test lost its agent, the second failed
// with exit status 2, and one job was skipped.
func Failed() *report.Build {
	at := func(s int) time.Time { return Start.Add(time.Duration(s) * time.Second) }
	status := func(n int) *int { return &n }
	job := func(id, step, label string, state flow.JobState, runnable, started, finished int) *builds.Job {
		j := &builds.Job{Label: label, BuildID: BuildID, Job: flow.Job{ID: id, Type: flow.Script, StepID: step, State: state, AgentID: "agent-1"}}
		j.RunnableAt, j.StartedAt, j.FinishedAt = at(runnable), at(started), at(finished)
		return j
	}
	lint := job(LintJob, LintStep, "Lint", flow.Finished, 0, 5, 20)
	lint.ExitStatus = status(0)
	lost := job(LostJob, TestStep, "Test", flow.Finished, 0, 5, 30)
	lost.ExitStatus, lost.SignalReason, lost.Retried, lost.RetriedIn = status(-1), "agent_lost", true, TestJob
	test := job(TestJob, TestStep, "Test", flow.Finished, 30, 40, 60)
	test.ExitStatus, test.RetryOf, test.RetriesCount = status(2), LostJob, 1
	skipped := job(SkipJob, "0190c0de-0000-7000-8000-000000000053", "Docs", flow.Broken, 0, 0, 0)
	skipped.RunnableAt, skipped.StartedAt, skipped.FinishedAt = time.Time{}, time.Time{}, time.Time{}
	return &report.Build{
		Org:      &identity.Organization{ID: "org", Slug: "acme", Name: "Acme"},
		Pipeline: &pipelines.Pipeline{ID: "pipeline", Slug: "web", Name: "Web", Repository: "https://git.example.test/acme/web.git", DefaultBranch: "main"},
		URL:      "https://ci.example.test/acme/web/builds/7",
		Build: &builds.Build{
			ID: BuildID, Number: 7, Branch: "main", Commit: "7f263865994b76066c4612fd1965215e7dcb4cd2", Source: builds.FromWebhook,
			Creator:   &identity.User{ID: "ada", Name: "Ada", Email: "ada@acme.test"},
			CreatedAt: Start,
			Build:     flow.Build{State: flow.BuildFailed, StartedAt: at(5), FinishedAt: at(60)},
			Details:   builds.Details{Message: "Fix <it>", Author: &builds.Author{Name: "Bob", Email: "bob@acme.test"}},
		},
		Jobs: []*builds.Job{lint, lost, test, skipped},
	}
}
