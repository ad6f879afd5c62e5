package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/domain/events"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// wantEvents fails the test unless these events were written since it was called last: the name, the states of build
// and job, and what else is of interest.
func wantEvents(t testing.TB, s *servertest.Server, want ...string) {
	t.Helper()
	var got []string
	for _, e := range s.Events(t) {
		got = append(got, describeEvent(e))
	}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func describeEvent(e events.Event) string {
	text := string(e.Name)
	if b := e.Facts.Build; b != nil {
		text += " " + string(b.State)
		if b.Blocked != "" {
			text += " (blocked, shown as " + string(b.Blocked) + ")"
		}
		if b.Fixed {
			text += " (fixed)"
		}
	}
	if j := e.Facts.Job; j != nil {
		text += ": " + string(j.State)
		if j.ExitStatus != nil {
			text += fmt.Sprint(" ", *j.ExitStatus)
		}
		if j.PromisedExitStatus != nil {
			text += fmt.Sprint(" promised ", *j.PromisedExitStatus)
		}
	}
	if e.Facts.PromiseReason != "" {
		text += " because " + e.Facts.PromiseReason
	}
	return text
}

// firstJob creates a build of hello with steps and returns the id of its first job and of the build.
func firstJob(s *servertest.Server, t testing.TB, steps ...string) (job string, build *servertest.Response) {
	t.Helper()
	buildstest.Configure(s, t, "steps:\n  - "+strings.Join(steps, "\n  - ")+"\n")
	build = buildstest.Create(s, t, nil)
	return build.String("jobs.0.id"), build
}

func TestEvents_OfABuildThatPassesAndOfOneThatIsFixed(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t)
		agent := s.Register(t, nil)
		s.Events(t)
		for _, exit := range []string{"0", "1", "0"} {
			id, build := firstJob(s, t, "{command: a, key: a}", "{command: b, depends_on: a}")
			wantEvents(t, s, "build.scheduled scheduled", "job.scheduled scheduled: scheduled")
			job := agent.Acquire(id)
			wantEvents(t, s)
			job.Start()
			wantEvents(t, s, "build.running running", "job.started running: running")
			job.Finish(exit)
			if exit == "1" {
				wantEvents(t, s, "job.finished failed: finished 1", "build.finished failed")
				continue
			}
			wantEvents(t, s, "job.finished running: finished 0", "job.scheduled running: scheduled")
			agent.Acquire(build.String("jobs.1.id")).Start().Finish("0")
			if build.String("number") == "1" {
				wantEvents(t, s, "job.started running: running", "job.finished passed: finished 0", "build.finished passed")
			} else {
				wantEvents(t, s, "job.started running: running", "job.finished passed: finished 0", "build.finished passed (fixed)")
			}
		}
	})
}

func TestEvents_CarryIdsAndTimes(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t, events.JobFinished)
		id, build := firstJob(s, t, "{command: a}")
		agent := s.Register(t, nil)
		agent.Acquire(id).Start().Finish("3")
		list := s.Events(t)
		if len(list) != 1 {
			t.Fatalf("%d events, want 1", len(list))
		}
		e := list[0]
		servertest.WantEqual(t, "build", e.BuildID, build.String("id"))
		servertest.WantEqual(t, "job", e.JobID, id)
		servertest.WantEqual(t, "pipeline", e.PipelineID, servertest.AcmePipelineID)
		servertest.WantEqual(t, "cluster", e.ClusterID, servertest.AcmeClusterID)
		servertest.WantEqual(t, "branch", e.Branch, "main")
		servertest.WantEqual(t, "agent", e.Facts.Job.AgentID, agent.ID)
		servertest.WantEqual(t, "end of the job", e.Facts.Job.FinishedAt, s.Clock.Now())
		servertest.WantEqual(t, "end of the build", e.Facts.Build.FinishedAt, s.Clock.Now())
	})
}

func TestEvents_OfBlockedBuilds(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t)
		block, _ := firstJob(s, t, "{block: go, blocked_state: failed}", "{command: a}")
		wantEvents(t, s, "build.scheduled scheduled", "build.finished blocked (blocked, shown as failed)")
		s.As(t, servertest.Ada).Put(acme+"/jobs/"+block+"/unblock", nil).Want(200)
		wantEvents(t, s, "build.running running", "job.activated running: unblocked", "job.scheduled running: scheduled")
	})
}

func TestEvents_OfABuildThatIsBlockedWhileItIsFailing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t, events.BuildFailing, events.BuildFinished)
		first, build := firstJob(s, t, "{command: a}", "{command: b, key: b}", "{input: go, depends_on: b}")
		agent := s.Register(t, nil)
		agent.Acquire(first).Start().Finish("1")
		wantEvents(t, s, "build.failing failing")
		agent.Acquire(build.String("jobs.1.id")).Start().Finish("0")
		wantEvents(t, s, "build.finished failing (blocked, shown as passed)")
	})
}

func TestEvents_OfRetriesAndSoftFailures(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t)
		agent := s.Register(t, nil)
		id, _ := firstJob(s, t, "{command: a, soft_fail: true, retry: {automatic: {exit_status: 7, limit: 1}}}")
		s.Events(t)
		agent.Acquire(id).Start().Finish("7")
		wantEvents(t, s, "build.running running", "job.started running: running", "job.finished running: finished 7", "job.scheduled running: scheduled")
	})
}

func TestEvents_OfCanceledBuilds(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t)
		agent := s.Register(t, nil)
		id, build := firstJob(s, t, "{command: a}", "wait", "{command: b}")
		job := agent.Acquire(id).Start()
		s.Events(t)
		s.As(t, servertest.Ada).Put(hello+"/"+build.String("number")+"/cancel", nil).Want(200)
		wantEvents(t, s, "job.finished canceling: canceled")
		job.Finish("-1")
		wantEvents(t, s, "job.finished canceled: canceled -1", "build.finished canceled")
	})
}

func TestEvents_OfSkippedBuildsAndOfBuildsWithNothingToRun(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t, events.BuildSkipped, events.BuildFinished, events.JobFinished)
		ada := s.As(t, servertest.Ada)
		ada.Patch(servertest.HelloPath, map[string]any{"skip_queued_branch_builds": true}).Want(200)
		firstJob(s, t, "{command: a}")
		buildstest.Create(s, t, nil)
		if err := s.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEvents(t, s, "job.finished skipped: skipped", "build.skipped skipped")
		firstJob(s, t, `{command: a, if: "false"}`)
		wantEvents(t, s, "job.finished not_run: broken", "build.finished not_run")
	})
}

func TestEvents_OfPromisedExitStatuses(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		id, _ := firstJob(s, t, "{command: a}")
		job := s.Register(t, nil).Acquire(id).Start()
		s.RecordEvents(t)
		promise := map[string]any{"exit_status": 5, "reason": "a test failed"}
		for range 2 {
			job.Put(job.Path("/promise_failure"), promise).Want(204)
		}
		wantEvents(t, s, "job.promised_exit_status failing: running promised 5 because a test failed", "build.failing failing")
	})
}

func TestEvents_OfConcurrencyGroups(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t, events.JobScheduled, events.JobFinished)
		step := "{command: a, concurrency: 1, concurrency_group: one}"
		first, _ := firstJob(s, t, step)
		firstJob(s, t, step)
		wantEvents(t, s, "job.scheduled scheduled: scheduled")
		s.Register(t, nil).Acquire(first).Start().Finish("0")
		wantEvents(t, s, "job.finished passed: finished 0", "job.scheduled scheduled: scheduled")
	})
}

func TestEvents_AreNotWrittenUnlessWanted(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		id, _ := firstJob(s, t, "{command: a}")
		s.Register(t, nil).Acquire(id).Start().Finish("0")
		wantEvents(t, s)
	})
}

func TestAsOf_ShowsWhatWas(t *testing.T) {
	for _, shown := range []definition.BlockedState{definition.BlockedPassed, definition.BlockedFailed, definition.BlockedRunning} {
		b := &builds.Build{Build: flow.Build{State: flow.BuildPassed, Counts: flow.JobCounts{Done: 2}}}
		j := &builds.Job{Job: flow.Job{State: flow.Finished}}
		buildevents.AsOf(events.Facts{
			Build: &events.BuildFacts{State: flow.BuildBlocked, Blocked: shown},
			Job:   &events.JobFacts{State: flow.Running, AgentID: "a"},
		}, b, j)
		if b.State != flow.BuildBlocked || !b.Blocked() || b.BlockedState() != shown {
			t.Errorf("state %s, blocked %v as %s; want blocked as %s", b.State, b.Blocked(), b.BlockedState(), shown)
		}
		if j.State != flow.Running || j.AgentID != "a" {
			t.Errorf("job %s of agent %q", j.State, j.AgentID)
		}
	}
}
