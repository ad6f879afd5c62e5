package lifecycle_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

func TestMoves_StampJobsAndBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "wait", "{command: b, key: b}")
		w.Create(nil)
		created := w.Now()
		ctx, a, b := t.Context(), w.Job(1, "a"), w.Job(1, "b")
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+b), map[string]any{"created_at": created, "scheduled_at": created, "runnable_at": nil})
		w.Clock.Advance(time.Second)
		w.WantNoError(w.Assign(a))
		w.WantNoError(w.Service.Accept(ctx, w.OrgID, a, ""))
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "scheduled", "started_at": nil})
		w.Clock.Advance(time.Second)
		w.WantNoError(w.Service.Start(ctx, w.OrgID, a, ""))
		started := w.Now()
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "running", "started_at": started, "finished_at": nil, "failing_at": nil})
		w.Clock.Advance(time.Second)
		w.End(a, 0)
		ended := w.Now()
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+a), map[string]any{"state": "passed", "runnable_at": created, "started_at": started, "finished_at": ended, "exit_status": 0, "expired_at": nil})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+b), map[string]any{"state": "scheduled", "runnable_at": ended, "started_at": nil})
		servertest.WantEqual(t, "the wait", w.Ada.Get(hello+"/1/jobs").String("items.1.finished_at"), ended)
		w.Clock.Advance(time.Second)
		w.Run(1, "b", 0)
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "passed", "started_at": started, "finished_at": w.Now()})
	})
}

func TestMoves_OpenAFailedBuildAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}", "wait", "{command: c, key: c}")
		w.Create(nil)
		w.Run(1, "a", 1)
		failing := w.Now()
		w.WantStates(1, "failing", "a failed, b scheduled, waiter waiting, c waiting")
		w.Clock.Advance(time.Second)
		w.Run(1, "b", 0)
		w.WantStates(1, "failed", "a failed, b passed, waiter waiting_failed, c waiting_failed")
		servertest.WantAt(t, w.Build(1), map[string]any{"failing_at": failing, "finished_at": w.Now()})
		w.Clock.Advance(time.Second)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/retry", nil).Want(http.StatusOK)
		w.WantStates(1, "running", "a failed, a scheduled, b passed, waiter waiting, c waiting")
		servertest.WantAt(t, w.Build(1), map[string]any{"failing_at": failing, "finished_at": nil})
		w.Run(1, "a", 0)
		w.Run(1, "c", 0)
		w.WantStates(1, "passed", "a failed, a passed, b passed, waiter passed, c passed")
	})
}

func TestMoves_RetryAutomaticallyAsTheRulesSay(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			"{command: a, key: any, retry: {automatic: true}}",
			"{command: a, key: lost, retry: {automatic: [{exit_status: -1, limit: 1}, {exit_status: 3, limit: 2}]}}",
			"{command: a, key: signal, retry: {automatic: {signal_reason: agent_stop, limit: 1}}}",
		)
		w.Create(nil)
		first := w.Job(1, "any")
		for range 3 {
			w.Run(1, "any", 1)
		}
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+first), map[string]any{"retried": true, "retried_by": nil, "state": "failed"})
		second := w.Ada.Get(acme + "/jobs/" + w.Ada.Get(acme+"/jobs/"+first).String("retried_in_job_id"))
		servertest.WantAt(t, second, map[string]any{"retry_type": "automatic", "retries_count": 1, "retry_source_job_id": first, "retry_source": nil})
		for _, status := range []int{-1, 3, 3, -1} {
			w.Run(1, "lost", status)
		}
		for range 2 {
			id := w.Job(1, "signal")
			w.Start(id)
			w.WantNoError(w.Service.Finish(t.Context(), w.OrgID, id, "", flow.Exit{Status: 255, Signal: "SIGTERM", SignalReason: "agent_stop"}, ""))
			servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+id), map[string]any{"signal": "SIGTERM", "signal_reason": "agent_stop", "exit_status": 255})
		}
		w.WantStates(1, "failed", "any failed, any failed, any failed, lost failed, lost failed, lost failed, lost failed, signal failed, signal failed")
		// One that is canceled is not tried again.
		w.Create(nil)
		id := w.Job(2, "any")
		w.Start(id)
		w.Ada.Put(acme+"/jobs/"+id+"/cancel", nil).Want(http.StatusOK)
		w.End(id, 1)
		w.WantStates(2, "failing", "any canceled, lost scheduled, signal scheduled")
	})
}

func TestMoves_LetSoftFailuresPass(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: any, soft_fail: true}", "{command: a, key: some, soft_fail: [{exit_status: 3}]}", "wait", "{command: b, key: b}")
		w.Create(nil)
		w.Run(1, "any", 1)
		w.Run(1, "some", 3)
		for _, name := range []string{"any", "some"} {
			servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+w.Job(1, name)), map[string]any{"state": "failed", "soft_failed": true})
		}
		w.Run(1, "b", 0)
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "passed", "failing_at": nil})
		w.Create(nil)
		w.Run(2, "any", 1)
		w.Run(2, "some", 4)
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+w.Job(2, "some")), map[string]any{"state": "failed", "soft_failed": false})
		w.WantStates(2, "failed", "any failed, some failed, waiter waiting_failed, b waiting_failed")
	})
}

func TestMoves_ContinueAfterAFailureWhereAWaitAllowsIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{wait: ~, continue_on_failure: true}", "{command: b, key: b}", "wait", "{command: c, key: c}")
		w.Create(nil)
		w.Run(1, "a", 1)
		w.WantStates(1, "failing", "a failed, waiter passed, b scheduled, waiter waiting, c waiting")
		w.Run(1, "b", 0)
		w.WantStates(1, "failed", "a failed, waiter passed, b passed, waiter waiting_failed, c waiting_failed")
		// But not after a cancel.
		w.Create(nil)
		w.Start(w.Job(2, "a"))
		w.Ada.Put(hello+"/2/cancel", nil).Want(http.StatusOK)
		w.End(w.Job(2, "a"), 1)
		w.WantStates(2, "canceled", "a canceled, waiter canceled, b canceled, waiter canceled, c canceled")
	})
}

func TestMoves_FollowDependencies(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			"{command: a, key: a}", "{command: b, key: b}",
			"{command: x, key: strict, depends_on: a}", "{command: x, key: lenient, depends_on: a, allow_dependency_failure: true}",
			"{command: x, key: both, depends_on: [{step: a, allow_failure: true}, b]}", "{command: x, key: missing, depends_on: nowhere}",
		)
		w.Create(nil)
		w.Run(1, "a", 1)
		w.WantStates(1, "failing", "a failed, b scheduled, strict waiting_failed, lenient scheduled, both waiting, missing waiting")
		w.Run(1, "b", 0)
		w.Run(1, "lenient", 0)
		w.Run(1, "both", 0)
		w.WantStates(1, "failed", "a failed, b passed, strict waiting_failed, lenient passed, both passed, missing broken")
		servertest.WantEqual(t, "reason", w.Ada.Get(acme+"/jobs/"+w.Job(1, "missing")).String("broken_reason"), "dependency_missing")
	})
}

func TestMoves_ShowBlockedBuildsAsTheirStepAsks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for i, state := range []string{"passed", "failed", "running"} {
			w.Steps("{command: a, key: a}", "{block: Go, key: ask, blocked_state: "+state+"}", "{command: b, key: b}")
			created := w.Create(nil)
			servertest.WantAt(t, created, map[string]any{"state": "scheduled", "blocked": false})
			w.Run(i+1, "a", 0)
			servertest.WantAt(t, w.Build(i+1), map[string]any{"state": state, "blocked": true, "finished_at": nil})
			servertest.WantAt(t, w.Ada.Get(hello+"?state=blocked"), map[string]any{"0.number": i + 1, "0.state": state, "0.blocked": true})
			w.Ada.Put(acme+"/jobs/"+w.Job(i+1, "ask")+"/unblock", nil).Want(http.StatusOK)
			servertest.WantAt(t, w.Build(i+1), map[string]any{"state": "running", "blocked": false})
			w.Run(i+1, "b", 0)
			servertest.WantAt(t, w.Build(i+1), map[string]any{"state": "passed", "blocked": false, "finished_at": w.Now()})
		}
		w.Steps("{block: Go, key: ask}")
		servertest.WantAt(t, w.Create(nil), map[string]any{"state": "passed", "blocked": true, "started_at": nil, "finished_at": nil})
	})
}

func TestMoves_BlockNothingOnceSomethingFailed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{block: Go, key: ask}", "{command: b, key: b}")
		w.Create(nil)
		w.Run(1, "a", 1)
		if got := w.States(1); !strings.HasPrefix(got, "a failed, ask ") || !strings.HasSuffix(got, ", b waiting_failed") {
			t.Errorf("got %s", got)
		}
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "failed", "blocked": false})
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, "The job's state must be blocked")
	})
}

func TestMoves_WaitForPlacesInConcurrencyGroups(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, concurrency: 1, concurrency_group: deploy}", "{command: free, key: free}")
		for range 3 {
			w.Create(nil)
			w.Clock.Advance(time.Second)
		}
		states := func() string {
			return strings.Join([]string{w.States(1), w.States(2), w.States(3)}, " | ")
		}
		servertest.WantEqual(t, "at first", states(), "a scheduled, free scheduled | a limited, free scheduled | a limited, free scheduled")
		wait := func(number int) any {
			return w.Ada.Get(acme + "/jobs/" + w.Job(number, "a")).At("concurrency_wait_time_ms")
		}
		servertest.WantEqual(t, "passed without waiting", wait(1), any(0.0))
		servertest.WantEqual(t, "still waiting", wait(2), nil)
		servertest.WantEqual(t, "no group", w.Ada.Get(acme+"/jobs/"+w.Job(1, "free")).At("concurrency_wait_time_ms"), nil)
		w.Clock.Advance(1500 * time.Millisecond)
		w.Run(1, "a", 0)
		servertest.WantEqual(t, "after the first", states(), "a passed, free scheduled | a scheduled, free scheduled | a limited, free scheduled")
		servertest.WantEqual(t, "the second's wait", wait(2), any(3500.0))
		servertest.WantEqual(t, "runnable_at", w.Ada.Get(acme+"/jobs/"+w.Job(2, "a")).String("runnable_at"), w.Now())
		w.Ada.Put(hello+"/2/cancel", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "after the second was canceled", states(), "a passed, free scheduled | a canceled, free canceled | a scheduled, free scheduled")
	})
}

func TestMoves_LetEagerJobsGoByPriority(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, concurrency: 1, concurrency_group: deploy, concurrency_method: eager}")
		for range 3 {
			w.Create(nil)
		}
		w.Ada.Put(acme+"/jobs/"+w.Job(3, "a")+"/reprioritize", map[string]any{"priority": 1}).Want(http.StatusOK)
		w.Run(1, "a", 0)
		servertest.WantEqual(t, "states", w.States(2)+" "+w.States(3), "a limited a scheduled")
	})
}

func TestMoves_RefuseWhatDoesNotFit(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{block: Go, key: ask}")
		w.Create(nil)
		ctx, id := t.Context(), w.Job(1, "a")
		moves := map[string]func(string) error{
			"Accept":  func(id string) error { return w.Service.Accept(ctx, w.OrgID, id, "") },
			"Start":   func(id string) error { return w.Service.Start(ctx, w.OrgID, id, "") },
			"Finish":  func(id string) error { return w.Service.Finish(ctx, w.OrgID, id, "", flow.Exit{}, "ended") },
			"TimeOut": func(id string) error { return w.Service.TimeOut(ctx, w.OrgID, id) },
			"Return":  func(id string) error { return w.Service.Return(ctx, w.OrgID, id, "") },
			"Promise": func(id string) error { return w.Service.Promise(ctx, w.OrgID, id, "", 1, "", true) },
		}
		for name, move := range moves {
			for _, id := range []string{id, w.Job(1, "ask")} {
				if err := move(id); core.KindOf(err) != core.Unprocessable {
					t.Errorf("%s: %v, want an Unprocessable error", name, err)
				}
			}
			if err := move(core.NewID()); core.KindOf(err) != core.NotFound {
				t.Errorf("%s of a job that does not exist: %v", name, err)
			}
		}
		if _, err := w.Service.Assign(ctx, core.NewID(), w.Build(1).String("id"), []flow.Offer{{JobID: id, AgentID: buildstest.SomeAgent}}); core.KindOf(err) != core.NotFound {
			t.Errorf("a job moved for another organization: %v", err)
		}
		w.WantStates(1, "scheduled", "a scheduled, ask waiting")
		servertest.WantEqual(t, "detail", w.Ada.Get(acme+"/jobs/"+id).At("detail"), nil)
	})
}

func TestMoves_RescheduleJobsThatWereNotStarted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}")
		w.Create(nil)
		ctx, id := t.Context(), w.Job(1, "a")
		runnable := w.Now()
		w.Clock.Advance(time.Second)
		w.WantNoError(w.Assign(id))
		w.WantNoError(w.Service.Return(ctx, w.OrgID, id, ""))
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+id), map[string]any{"state": "scheduled", "runnable_at": runnable})
		w.WantNoError(w.Service.FinishUnstarted(ctx, w.OrgID, id, func(*db.Q) error { return nil }, flow.Exit{Status: -1, SignalReason: "stack_error"}, "No such image"))
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+id), map[string]any{"state": "failed", "exit_status": -1, "signal_reason": "stack_error", "detail": "No such image"})
		servertest.WantEqual(t, "explained", w.Ada.Get(acme+"/jobs/"+id+"/explain").String("reason"), "It failed with exit status -1. No such image")
	})
}

func TestMoves_PassInSpiteOfATimeout(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: late}", "{command: a, key: slow}")
		w.Create(nil)
		for _, name := range []string{"late", "slow"} {
			w.Start(w.Job(1, name))
			w.WantNoError(w.Service.TimeOut(t.Context(), w.OrgID, w.Job(1, name)))
		}
		w.End(w.Job(1, "late"), 0)
		w.End(w.Job(1, "slow"), 143)
		w.WantStates(1, "failed", "late passed, slow timed_out")
	})
}

func TestMoves_KeepThePipelinesCountsTrue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, parallelism: 2}", "{command: limited, key: limited, concurrency: 1, concurrency_group: g, parallelism: 2}", "{block: Go, key: ask}", "{command: b, key: b}")
		want := func(after string, scheduledBuilds, runningBuilds, scheduledJobs, runningJobs, waitingJobs int) {
			t.Helper()
			p := w.Ada.Get(acme + "/pipelines/hello")
			got := fmt.Sprint(p.At("scheduled_builds_count"), p.At("running_builds_count"), p.At("scheduled_jobs_count"), p.At("running_jobs_count"), p.At("waiting_jobs_count"))
			if want := fmt.Sprint(scheduledBuilds, runningBuilds, scheduledJobs, runningJobs, waitingJobs); got != want {
				t.Errorf("after %s: counts %s, want %s", after, got, want)
			}
		}
		want("nothing", 0, 0, 0, 0, 0)
		w.Create(nil)
		want("create", 1, 0, 4, 0, 1)
		jobs := w.Jobs(1)
		w.Start(jobs[0].ID)
		want("start", 0, 1, 3, 1, 1)
		w.End(jobs[0].ID, 1)
		want("a failure", 0, 1, 3, 0, 1)
		retried := w.Ada.Put(acme+"/jobs/"+jobs[0].ID+"/retry", nil).Want(http.StatusOK).String("id")
		want("a retry", 0, 1, 4, 0, 1)
		for _, id := range []string{retried, jobs[1].ID, jobs[2].ID, jobs[3].ID} {
			w.Start(id)
			w.End(id, 0)
		}
		if got := w.Ada.Get(acme + "/pipelines/hello").String("waiting_jobs_count"); got != "1" {
			t.Errorf("one job waits behind the block, not %s", got)
		}
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/unblock", nil).Want(http.StatusOK)
		want("unblock", 0, 1, 1, 0, 0)
		w.Run(1, "b", 0)
		want("the end", 0, 0, 0, 0, 0)
		w.Create(nil)
		w.Start(w.Jobs(2)[0].ID)
		w.Ada.Put(hello+"/2/cancel", nil).Want(http.StatusOK)
		want("cancel", 0, 1, 0, 1, 0)
		w.End(w.Jobs(2)[0].ID, 1)
		want("the end of the canceled", 0, 0, 0, 0, 0)
	})
}
