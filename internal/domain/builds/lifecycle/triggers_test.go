package lifecycle_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// child makes a pipeline child, and hello one that triggers it.
func (w *world) child(trigger string) {
	w.t.Helper()
	w.pipeline("child", map[string]any{"default_branch": "trunk"}, "{command: work, key: work}")
	w.steps(trigger)
}

// runChild ends the job of a build of child.
func (w *world) runChild(number, status int) {
	w.t.Helper()
	id := w.ada.Get(fmt.Sprintf("%s/%d", child, number)).Want(http.StatusOK).String("jobs.0.id")
	w.start(id)
	w.end(id, status)
	w.follow()
}

func TestTrigger_ShowsEveryFieldOfATriggerJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: Child, key: go}`)
		created := w.createAll(nil)
		id := created.String("jobs.0.id")
		made := w.ada.Get(child + "/1").Want(http.StatusOK)
		want := map[string]any{
			"id": id, "graphql_id": core.GraphQLID("Job", id), "type": "trigger", "name": "Child", "label": "Child", "step_key": "go", "group_key": nil,
			"step": created.At("jobs.0.step"), "state": "running", "async": false,
			"triggered_build": map[string]any{"id": made.String("id"), "number": 1.0, "url": w.URL + child + "/1", "web_url": w.URL + "/acme/child/builds/1"},
			"build_url":       w.URL + hello + "/1", "web_url": w.URL + "/acme/hello/builds/1#" + id, "broken_reason": nil, "detail": nil,
			"soft_failed": false, "exit_status": nil,
			"created_at": w.now(), "scheduled_at": w.now(), "runnable_at": w.now(), "started_at": w.now(), "finished_at": nil,
			"retried": false, "retried_in_job_id": nil, "retries_count": nil, "retry_source": nil, "retry_source_job_id": nil, "retry_type": nil, "retried_by": nil,
			"parallel_group_index": nil, "parallel_group_total": nil,
		}
		wantEqual(t, "state", created.String("state"), "running")
		for _, got := range []any{created.At("jobs.0"), w.ada.Get(acme + "/jobs/" + id).At(""), w.ada.Get(hello + "/1/jobs").At("items.0")} {
			if !reflect.DeepEqual(got, any(want)) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

func TestTrigger_MakesABuildOfTheOtherPipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: Child}`)
		parent := w.createAll(map[string]any{"author": map[string]any{"name": "Grace"}, "env": map[string]any{"A": "1"}, "meta_data": map[string]any{"m": "1"}})
		from := map[string]any{"build_id": parent.String("id"), "build_number": 1.0, "build_pipeline_slug": "hello"}
		made := w.ada.Get(child + "/1")
		wantAt(t, made, map[string]any{
			"source": "trigger_job", "commit": "HEAD", "branch": "trunk", "message": "Child", "author.name": "Grace", "creator.id": servertest.AdaID,
			"env": map[string]any{}, "meta_data": map[string]any{}, "triggered_from": from, "rebuilt_from": nil,
		})
		wantAt(t, w.ada.Get(acme+"/jobs/"+made.String("jobs.0.id")+"/env"), map[string]any{
			"env.SERVICE_TRIGGERED_FROM_BUILD_ID": parent.String("id"), "env.SERVICE_TRIGGERED_FROM_BUILD_NUMBER": "1", "env.SERVICE_TRIGGERED_FROM_BUILD_PIPELINE_SLUG": "hello",
		})
		w.steps(`{trigger: child, build: {message: Hi, commit: abc, branch: feature, env: {B: 2}, meta_data: {n: 3}}}`)
		w.createAll(nil)
		wantAt(t, w.ada.Get(child+"/2"), map[string]any{
			"commit": "abc", "branch": "feature", "message": "Hi", "env": map[string]any{"B": "2"}, "meta_data": map[string]any{"n": "3"},
		})
	})
}

func TestTrigger_EndsAsItsBuildDoes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		for number, c := range []struct {
			status    int
			job, next string
		}{{0, "passed", "passed"}, {1, "failed", "failed"}} {
			number++
			w.createAll(nil)
			w.wantStates(number, "running", "go running")
			w.Clock.Advance(time.Second)
			w.runChild(number, c.status)
			w.wantStates(number, c.next, "go "+c.job)
			wantEqual(t, "finished_at", w.ada.Get(acme+"/jobs/"+w.job(number, "go")).String("finished_at"), w.now())
		}
		w.createAll(nil)
		w.ada.Put(child+"/3/cancel", nil).Want(http.StatusOK)
		w.follow()
		w.wantStates(3, "failed", "go failed")
		w.steps(`{trigger: child, label: go, soft_fail: true}`)
		w.createAll(nil)
		w.runChild(4, 1)
		w.wantStates(4, "passed", "go failed")
		wantEqual(t, "soft_failed", w.ada.Get(acme+"/jobs/"+w.job(4, "go")).String("soft_failed"), "true")
	})
}

func TestTrigger_AsynchronousPassesAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go, async: true}`)
		created := w.createAll(nil)
		wantAt(t, created, map[string]any{"state": "passed", "finished_at": w.now(), "jobs.0.state": "passed", "jobs.0.async": true, "jobs.0.triggered_build.number": 1})
		w.runChild(1, 1)
		w.wantStates(1, "passed", "go passed")
	})
}

func TestTrigger_FailsWhenThereIsNothingToBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.pipeline("archived", nil, "command: x")
		w.ada.Post(acme+"/pipelines/archived/archive", nil).Want(http.StatusOK)
		w.pipeline("filtered", map[string]any{"branch_configuration": "release"}, "command: x")
		w.steps("{trigger: nowhere, key: nowhere}", "{trigger: archived, key: archived}", "{trigger: filtered, key: filtered}", "{trigger: nowhere, key: async, async: true}")
		w.createAll(nil)
		w.wantStates(1, "failed", "nowhere failed, archived failed, filtered failed, async failed")
		for name, want := range map[string]string{"nowhere": `There is no pipeline "nowhere"`, "archived": "archived", "filtered": "release", "async": "nowhere"} {
			got := w.ada.Get(acme + "/jobs/" + w.job(1, name))
			if detail := got.String("detail"); !strings.Contains(detail, want) {
				t.Errorf("the detail of %s is %q, want %q in it", name, detail, want)
			}
			wantEqual(t, "triggered_build", got.At("triggered_build"), nil)
		}
	})
}

func TestTrigger_IsCanceledWithItsBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.createAll(nil)
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.follow()
		w.wantStates(1, "canceled", "go canceled")
		wantEqual(t, "the child", w.ada.Get(child+"/1").String("state"), "canceled")
		if reason := w.ada.Get(child + "/1").String("cancel_reason"); !strings.Contains(reason, "triggered") {
			t.Errorf("cancel_reason is %q", reason)
		}
		// That of an asynchronous trigger goes on.
		w.steps(`{trigger: child, label: go, async: true}`, "{command: a, key: a}")
		w.createAll(nil)
		w.ada.Put(hello+"/2/cancel", nil).Want(http.StatusOK)
		w.follow()
		wantEqual(t, "the child of an asynchronous trigger", w.ada.Get(child+"/2").String("state"), "scheduled")
	})
}

func TestTrigger_KeepsJobsOfItsBuildFromBeingRetriedOnceCanceled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.ada.Patch(acme+"/pipelines/child", map[string]any{"configuration": "steps: [{command: a, key: a}, {command: b, key: b}]"}).Want(http.StatusOK)
		w.steps(`{trigger: child, label: go}`, "{command: later, key: later}")
		w.createAll(nil)
		failed := w.ada.Get(child + "/1").String("jobs.0.id")
		last := w.ada.Get(child + "/1").String("jobs.1.id")
		for _, id := range []string{failed, last} {
			w.start(id)
			w.end(id, 1)
		}
		w.follow()
		wantEqual(t, "the child", w.ada.Get(child+"/1").String("state"), "failed")
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.follow()
		w.ada.Put(acme+"/jobs/"+failed+"/retry", nil).
			WantMessage(http.StatusUnprocessableEntity, "Jobs from builds that were triggered by a canceled build cannot be retried")
		w.ada.Put(child+"/1/retry_failed_jobs", nil).Want(http.StatusUnprocessableEntity)
	})
}

func TestTrigger_CanBeRetriedWithANewBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.createAll(nil)
		w.runChild(1, 1)
		first := w.job(1, "go")
		retried := w.ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK)
		wantAt(t, retried, map[string]any{"type": "trigger", "state": "scheduled", "retries_count": 1, "retry_source_job_id": first, "triggered_build": nil})
		w.follow()
		wantAt(t, w.ada.Get(acme+"/jobs/"+retried.String("id")), map[string]any{"state": "running", "triggered_build.number": 2})
		wantEqual(t, "the first attempt's build", w.ada.Get(acme+"/jobs/"+first).String("triggered_build.number"), "1")
		w.runChild(2, 0)
		w.wantStates(1, "passed", "go failed, go passed")
	})
}

func TestTrigger_IsSkippedWithItsBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.ada.Patch(acme+"/pipelines/child", map[string]any{"skip_queued_branch_builds": true}).Want(http.StatusOK)
		w.createAll(nil)
		w.createAll(nil)
		wantEqual(t, "the first child", w.ada.Get(child+"/1").String("state"), "skipped")
		wantEqual(t, "the first trigger", w.ada.Get(acme+"/jobs/"+w.job(1, "go")).String("state"), "skipped")
		w.wantStates(2, "running", "go running")
	})
}

func TestTrigger_IsSkippedWhenItsBuildMakesWayWhileItRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.ada.Patch(acme+"/pipelines/child", map[string]any{"cancel_running_branch_builds": true}).Want(http.StatusOK)
		w.createAll(nil)
		id := w.ada.Get(child + "/1").String("jobs.0.id")
		w.start(id)
		w.createAll(nil)
		wantEqual(t, "the first child", w.ada.Get(child+"/1").String("state"), "canceling")
		w.end(id, 143)
		w.follow()
		wantEqual(t, "the first child", w.ada.Get(child+"/1").String("state"), "canceled")
		wantEqual(t, "the first trigger", w.ada.Get(acme+"/jobs/"+w.job(1, "go")).String("state"), "skipped")
		w.wantStates(2, "running", "go running")
	})
}

func TestTrigger_WaitsForABlockedBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		for number, state := range []string{"passed", "failed", "running"} {
			number++
			w.ada.Patch(acme+"/pipelines/child", map[string]any{"configuration": "steps: [{command: a}, {block: Go, blocked_state: " + state + "}]"}).Want(http.StatusOK)
			w.createAll(nil)
			w.runChild(number, 0)
			wantAt(t, w.ada.Get(fmt.Sprintf("%s/%d", child, number)), map[string]any{"state": state, "blocked": true})
			w.wantStates(number, "running", "go running")
			ask := w.ada.Get(fmt.Sprintf("%s/%d", child, number)).String("jobs.1.id")
			w.ada.Put(acme+"/jobs/"+ask+"/unblock", nil).Want(http.StatusOK)
			w.follow()
			w.wantStates(number, "passed", "go passed")
		}
	})
}

func TestTrigger_CountsParallelBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go, parallelism: 2}`)
		created := w.createAll(nil)
		wantAt(t, created, map[string]any{"jobs.1.parallel_group_index": 1, "jobs.1.parallel_group_total": 2, "jobs.1.triggered_build.number": 2})
		wantAt(t, w.ada.Get(child+"/2"), map[string]any{"env": map[string]any{"SERVICE_PARALLEL_JOB": "1", "SERVICE_PARALLEL_JOB_COUNT": "2"}})
	})
}

func TestTrigger_EndsChainsThatGoOnForEver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{trigger: hello, label: again}")
		w.createAll(nil)
		wantEqual(t, "builds", w.ada.Get(hello+"?per_page=100&exclude_jobs=1").Len(""), 11)
		last := w.ada.Get(acme + "/jobs/" + w.job(11, "again"))
		wantAt(t, last, map[string]any{"state": "failed", "detail": "A chain of builds can have at most 10 triggers"})
		w.wantStates(1, "failed", "again failed")
	})
}

func TestTrigger_BoundsBuildsThatDescendFromOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		wantEqual(t, "the limit unless set", quotas.Default.TriggeredBuilds, 500)
		w.Apply("organizations: [{slug: acme, limits: {triggered_builds: 20}}]")
		w.steps("{trigger: hello, label: left}", "{trigger: hello, label: right}")
		created := w.create(nil)
		wantEqual(t, "the state of the answer", created.String("state"), "scheduled")
		wantEqual(t, "builds when the request was answered", len(w.rowsOf(`SELECT id FROM builds`)), 1)
		w.follow()
		wantEqual(t, "builds", len(w.rowsOf(`SELECT id FROM builds`)), 21)
		wantEqual(t, "unfinished builds", len(w.rowsOf(`SELECT id FROM builds WHERE finished_at IS NULL`)), 0)
		const why = "The build that started this chain of triggers has 20 descendants, the limit of the organization"
		wantEqual(t, "jobs that were refused", len(w.rowsOf(`SELECT id FROM jobs WHERE detail = '`+why+`'`)), 22)
		w.wantTasks("build-consequence", 0)
		// Another build is a root of its own, and so is a rebuild.
		w.createAll(nil)
		wantEqual(t, "builds", len(w.rowsOf(`SELECT id FROM builds`)), 42)
	})
}

func TestTrigger_CancelsABuildThatWasMadeWhileItsTriggerWasCanceled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.create(nil)
		trigger := w.job(1, "go")
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.follow() // finds no build to cancel
		var p *pipelines.Pipeline
		w.ok(w.DB.Read(t.Context(), func(q *db.Q) (err error) {
			p, err = pipelines.BySlug(q, pipelines.System(w.orgID), "child")
			return err
		}))
		_, err := w.service.Create(t.Context(), p, lifecycle.Creation{Commit: "HEAD", Branch: "trunk", Source: builds.FromTrigger, TriggeredBy: trigger})
		w.ok(err)
		w.ok(w.service.EndStart(t.Context(), w.orgID, trigger))
		w.follow()
		wantEqual(t, "the child", w.ada.Get(child+"/1").String("state"), "canceled")
	})
}
