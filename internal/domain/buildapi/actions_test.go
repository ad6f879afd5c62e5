package buildapi_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

func TestCancel_EndsJobsWithoutAgentAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: done, key: done}", "wait", "{command: b, key: b}", "{block: Go, key: ask}", "{command: c, key: c, concurrency: 1, concurrency_group: one}")
		w.Create(nil)
		w.Run(1, "done", 0)
		w.Clock.Advance(time.Minute)
		canceled := w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		servertest.WantAt(t, canceled, map[string]any{"state": "canceled", "blocked": false, "finished_at": w.Now(), "cancel_reason": nil, "pipeline.running_builds_count": 0})
		w.WantStates(1, "canceled", "a canceled, done passed, waiter canceled, b canceled, ask canceled, c canceled")
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+w.Job(1, "a")), map[string]any{"finished_at": w.Now(), "exit_status": nil, "started_at": nil})
	})
}

func TestCancel_WaitsForAgentsToStop(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: running, key: running}", "{command: accepted, key: accepted}", "{command: assigned, key: assigned}")
		w.Create(nil)
		ctx := t.Context()
		w.Start(w.Job(1, "running"))
		w.WantNoError(w.Assign(w.Job(1, "accepted")))
		w.WantNoError(w.Service.Accept(ctx, w.OrgID, w.Job(1, "accepted"), ""))
		w.WantNoError(w.Assign(w.Job(1, "assigned")))
		servertest.WantAt(t, w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK), map[string]any{"state": "canceling", "finished_at": nil})
		w.WantStates(1, "canceling", "running canceling, accepted canceling, assigned canceled")
		w.Ada.Put(hello+"/1/cancel", nil).WantMessage(http.StatusUnprocessableEntity, "Build can't be canceled because it's already being canceled.")
		w.End(w.Job(1, "running"), 0)
		w.WantStates(1, "canceling", "running canceled, accepted canceling, assigned canceled")
		w.End(w.Job(1, "accepted"), 255)
		w.WantStates(1, "canceled", "running canceled, accepted canceled, assigned canceled")
		servertest.WantEqual(t, "finished_at", w.Build(1).String("finished_at"), w.Now())
	})
}

func TestCancel_RefusesWhatHasEnded(t *testing.T) {
	const finished = "Build can't be canceled because it's already finished."
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, branches: '!none'}")
		for number, status := range []int{1: 0, 2: 1} {
			if number > 0 {
				w.Create(nil)
				w.Run(number, "a", status)
			}
		}
		w.Create(nil)
		w.Ada.Put(hello+"/3/cancel", nil).Want(http.StatusOK)
		w.Create(map[string]any{"branch": "none"})
		for number, state := range map[string]string{"1": "passed", "2": "failed", "3": "canceled", "4": "not_run"} {
			servertest.WantEqual(t, number, w.Ada.Get(hello+"/"+number).String("state"), state)
			w.Ada.Put(hello+"/"+number+"/cancel", nil).WantMessage(http.StatusUnprocessableEntity, finished)
		}
	})
}

func TestCancel_IsAllowedWhileBlockedOrFailing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}", "{block: Go, key: ask}")
		w.Create(nil)
		w.Run(1, "a", 1)
		servertest.WantEqual(t, "state", w.Build(1).String("state"), "failing")
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.WantStates(1, "canceled", "a failed, b canceled, ask canceled")
		w.Create(nil)
		w.Run(2, "a", 0)
		w.Run(2, "b", 0)
		servertest.WantEqual(t, "blocked", w.Build(2).String("blocked"), "true")
		canceled := w.Ada.Put(hello+"/2/cancel", nil).Want(http.StatusOK)
		servertest.WantAt(t, canceled, map[string]any{"state": "canceled", "blocked": false})
	})
}

func TestRebuild_CopiesWhatTheBuildWasAskedToBe(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.Create(map[string]any{
			"commit": "abc", "branch": "feature", "message": "Fix it", "env": map[string]any{"A": "1"}, "meta_data": map[string]any{"m": "1"},
			"author": map[string]any{"name": "Grace"}, "pull_request_id": 7, "pull_request_base_branch": "main", "clean_checkout": true,
		})
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"branch_configuration": "main"}).Want(http.StatusOK)
		w.Clock.Advance(time.Minute)
		rebuilt := w.As(t, servertest.Bo).Put(hello+"/1/rebuild", nil).Want(http.StatusOK)
		for _, same := range []string{"commit", "branch", "message", "env", "author", "pull_request"} {
			if got, want := rebuilt.At(same), first.At(same); !reflect.DeepEqual(got, want) {
				t.Errorf("%s is %v, want %v", same, got, want)
			}
		}
		servertest.WantAt(t, rebuilt, map[string]any{
			"number": 2, "source": "api", "state": "scheduled", "creator.id": servertest.BoID, "created_at": w.Now(), "scheduled_at": w.Now(),
			"rebuilt_from": map[string]any{"id": first.String("id"), "number": 1, "url": w.URL + hello + "/1"},
			"meta_data":    map[string]any{},
		})
		if rebuilt.String("id") == first.String("id") || rebuilt.String("jobs.0.id") == first.String("jobs.0.id") {
			t.Error("the new build shares ids with the old one")
		}
		env := w.Ada.Get(acme + "/jobs/" + rebuilt.String("jobs.0.id") + "/env")
		servertest.WantAt(t, env, map[string]any{
			"env.SERVICE_CLEAN_CHECKOUT": "true", "env.SERVICE_REBUILT_FROM_BUILD_ID": first.String("id"), "env.SERVICE_REBUILT_FROM_BUILD_NUMBER": "1",
		})
		w.Ada.Put(hello+"/"+first.String("id")+"/rebuild", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "rebuilt from the rebuilt", w.Ada.Put(hello+"/2/rebuild", nil).Want(http.StatusOK).String("rebuilt_from.number"), "2")
	})
}

func TestRebuild_IsRefusedWhereThePipelineDoesNotAllowIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"allow_rebuilds": false}).Want(http.StatusOK)
		w.Ada.Put(hello+"/1/rebuild", nil).WantMessage(http.StatusUnprocessableEntity, "This pipeline does not allow rebuilds")
		servertest.WantEqual(t, "builds", w.Ada.Get(hello).Len(""), 1)
	})
}

func TestRetryFailedJobs_RetriesTheRequestedStates(t *testing.T) {
	steps := []string{
		"{command: passed, key: passed}", "{command: failed, key: failed}", "{command: soft, key: soft, soft_fail: true}",
		"{command: timed, key: timed}", "{command: expired, key: expired}", "{command: canceled, key: canceled}",
		"{command: fixed, key: fixed, retry: {manual: false}}",
	}
	each(t, func(t *testing.T, w *world) {
		w.Steps(steps...)
		ctx := t.Context()
		for number, c := range []struct {
			body    any
			retried string
			count   string
		}{
			{nil, "failed soft timed expired canceled", "5"},
			{map[string]any{}, "failed soft timed expired canceled", "5"},
			{map[string]any{"states": ""}, "failed soft timed expired canceled", "5"},
			{map[string]any{"states": "failed"}, "failed", "1"},
			{map[string]any{"states": "soft_failed, timed_out"}, "soft timed", "2"},
			{map[string]any{"states": "EXPIRED,canceled"}, "expired canceled", "2"},
		} {
			number++
			w.Create(nil)
			for name, status := range map[string]int{"passed": 0, "failed": 1, "soft": 1, "fixed": 1} {
				w.Run(number, name, status)
			}
			timed := w.Job(number, "timed")
			w.Start(timed)
			w.WantNoError(w.Service.TimeOut(ctx, w.OrgID, timed))
			w.End(timed, 143)
			w.WantNoError(w.Service.Expire(ctx, w.OrgID, w.Job(number, "expired")))
			w.WantNoError(w.Service.CancelJob(ctx, w.OrgID, w.Job(number, "canceled")))
			servertest.WantEqual(t, "state", w.Build(number).String("state"), "failed")

			path := w.URL + hello + "/" + w.Build(number).String("number") + "/retry_failed_jobs"
			response := w.Ada.Put(path, c.body).Want(http.StatusAccepted)
			servertest.WantAt(t, response, map[string]any{"retried_jobs_count": c.count, "number": number, "state": "failing", "finished_at": nil})
			var retried []string
			for _, j := range w.Jobs(number) {
				if j.RetriesCount == 1 {
					retried = append(retried, j.Name())
					servertest.WantEqual(t, j.Name(), j.State, "scheduled")
				}
			}
			servertest.WantEqual(t, "retried", strings.Join(retried, " "), c.retried)
			w.Clock.Advance(time.Second)
		}
	})
}

func TestRetryFailedJobs_NamesInvalidAndValidStates(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		refused := w.Ada.Put(hello+"/1/retry_failed_jobs", map[string]any{"states": "failed,passed,x"}).Want(http.StatusBadRequest)
		servertest.WantEqual(t, "message", refused.String("message"), "Invalid states: passed, x. Valid states are: canceled, expired, failed, soft_failed, timed_out")
		w.Ada.Put(hello+"/1/retry_failed_jobs", map[string]any{"states": []string{"failed"}}).WantFieldError("states", "must be")
		servertest.WantEqual(t, "none", w.Ada.Put(hello+"/1/retry_failed_jobs", nil).Want(http.StatusAccepted).String("retried_jobs_count"), "0")
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.Ada.Put(hello+"/1/retry_failed_jobs", nil).WantMessage(http.StatusUnprocessableEntity, "Jobs from canceled builds cannot be retried")
	})
}

func TestRetryFailedJobs_RetriesNothingTwice(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}")
		w.Create(nil)
		w.Run(1, "a", 1)
		w.Run(1, "b", 1)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/retry", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "retried", w.Ada.Put(hello+"/1/retry_failed_jobs", nil).Want(http.StatusAccepted).String("retried_jobs_count"), "1")
		servertest.WantEqual(t, "retried again", w.Ada.Put(hello+"/1/retry_failed_jobs", nil).Want(http.StatusAccepted).String("retried_jobs_count"), "0")
		w.Run(1, "a", 0)
		w.Run(1, "b", 0)
		w.WantStates(1, "passed", "a failed, a passed, b failed, b passed")
		build := w.Build(1)
		if build.At("failing_at") == nil || build.At("finished_at") == nil {
			t.Errorf("got %s", build.Body)
		}
	})
}

func TestBlocked_IsShownOfAFailingBuildToo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b, depends_on: []}", "{block: Go, key: ask, depends_on: []}", "{command: c, key: c, depends_on: ask}")
		w.Create(nil)
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "scheduled", "blocked": false})
		w.Run(1, "a", 1)
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "failing", "blocked": false}) // b can run
		w.Run(1, "b", 0)
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "failing", "blocked": true})
		servertest.WantAt(t, w.Ada.Get(hello), map[string]any{"0.state": "failing", "0.blocked": true})
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/unblock", nil).Want(http.StatusOK)
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "failing", "blocked": false})
		w.Run(1, "c", 0)
		servertest.WantAt(t, w.Build(1), map[string]any{"state": "failed", "blocked": false})
	})
}
