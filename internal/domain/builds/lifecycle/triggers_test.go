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
	w.T.Helper()
	w.AddPipeline("child", map[string]any{"default_branch": "trunk"}, "{command: work, key: work}")
	w.Steps(trigger)
}

// runChild ends the job of a build of child.
func (w *world) runChild(number, status int) {
	w.T.Helper()
	id := w.Ada.Get(fmt.Sprintf("%s/%d", child, number)).Want(http.StatusOK).String("jobs.0.id")
	w.Start(id)
	w.End(id, status)
	w.Follow()
}

func TestTrigger_ShowsEveryFieldOfATriggerJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: Child, key: go}`)
		created := w.CreateAll(nil)
		id := created.String("jobs.0.id")
		made := w.Ada.Get(child + "/1").Want(http.StatusOK)
		want := map[string]any{
			"id": id, "graphql_id": core.GraphQLID("Job", id), "type": "trigger", "name": "Child", "label": "Child", "step_key": "go", "group_key": nil,
			"step": created.At("jobs.0.step"), "state": "running", "async": false,
			"triggered_build": map[string]any{"id": made.String("id"), "number": 1.0, "url": w.URL + child + "/1", "web_url": w.URL + "/acme/child/builds/1"},
			"build_url":       w.URL + hello + "/1", "web_url": w.URL + "/acme/hello/builds/1#" + id, "broken_reason": nil, "detail": nil,
			"soft_failed": false, "exit_status": nil,
			"created_at": w.Now(), "scheduled_at": w.Now(), "runnable_at": w.Now(), "started_at": w.Now(), "finished_at": nil,
			"retried": false, "retried_in_job_id": nil, "retries_count": nil, "retry_source": nil, "retry_source_job_id": nil, "retry_type": nil, "retried_by": nil,
			"parallel_group_index": nil, "parallel_group_total": nil,
		}
		servertest.WantEqual(t, "state", created.String("state"), "running")
		for _, got := range []any{created.At("jobs.0"), w.Ada.Get(acme + "/jobs/" + id).At(""), w.Ada.Get(hello + "/1/jobs").At("items.0")} {
			if !reflect.DeepEqual(got, any(want)) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

func TestTrigger_MakesABuildOfTheOtherPipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: Child}`)
		parent := w.CreateAll(map[string]any{"author": map[string]any{"name": "Grace"}, "env": map[string]any{"A": "1"}, "meta_data": map[string]any{"m": "1"}})
		from := map[string]any{"build_id": parent.String("id"), "build_number": 1.0, "build_pipeline_slug": "hello"}
		made := w.Ada.Get(child + "/1")
		servertest.WantAt(t, made, map[string]any{
			"source": "trigger_job", "commit": "HEAD", "branch": "trunk", "message": "Child", "author.name": "Grace", "creator.id": servertest.AdaID,
			"env": map[string]any{}, "meta_data": map[string]any{}, "triggered_from": from, "rebuilt_from": nil,
		})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+made.String("jobs.0.id")+"/env"), map[string]any{
			"env.SERVICE_TRIGGERED_FROM_BUILD_ID": parent.String("id"), "env.SERVICE_TRIGGERED_FROM_BUILD_NUMBER": "1", "env.SERVICE_TRIGGERED_FROM_BUILD_PIPELINE_SLUG": "hello",
		})
		w.Steps(`{trigger: child, build: {message: Hi, commit: abc, branch: feature, env: {B: 2}, meta_data: {n: 3}}}`)
		w.CreateAll(nil)
		servertest.WantAt(t, w.Ada.Get(child+"/2"), map[string]any{
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
			w.CreateAll(nil)
			w.WantStates(number, "running", "go running")
			w.Clock.Advance(time.Second)
			w.runChild(number, c.status)
			w.WantStates(number, c.next, "go "+c.job)
			servertest.WantEqual(t, "finished_at", w.Ada.Get(acme+"/jobs/"+w.Job(number, "go")).String("finished_at"), w.Now())
		}
		w.CreateAll(nil)
		w.Ada.Put(child+"/3/cancel", nil).Want(http.StatusOK)
		w.Follow()
		w.WantStates(3, "failed", "go failed")
		w.Steps(`{trigger: child, label: go, soft_fail: true}`)
		w.CreateAll(nil)
		w.runChild(4, 1)
		w.WantStates(4, "passed", "go failed")
		servertest.WantEqual(t, "soft_failed", w.Ada.Get(acme+"/jobs/"+w.Job(4, "go")).String("soft_failed"), "true")
	})
}

func TestTrigger_AsynchronousPassesAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go, async: true}`)
		created := w.CreateAll(nil)
		servertest.WantAt(t, created, map[string]any{"state": "passed", "finished_at": w.Now(), "jobs.0.state": "passed", "jobs.0.async": true, "jobs.0.triggered_build.number": 1})
		w.runChild(1, 1)
		w.WantStates(1, "passed", "go passed")
	})
}

func TestTrigger_FailsWhenThereIsNothingToBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("archived", nil, "command: x")
		w.Ada.Post(acme+"/pipelines/archived/archive", nil).Want(http.StatusOK)
		w.AddPipeline("filtered", map[string]any{"branch_configuration": "release"}, "command: x")
		w.Steps("{trigger: nowhere, key: nowhere}", "{trigger: archived, key: archived}", "{trigger: filtered, key: filtered}", "{trigger: nowhere, key: async, async: true}")
		w.CreateAll(nil)
		w.WantStates(1, "failed", "nowhere failed, archived failed, filtered failed, async failed")
		for name, want := range map[string]string{"nowhere": `There is no pipeline "nowhere"`, "archived": "archived", "filtered": "release", "async": "nowhere"} {
			got := w.Ada.Get(acme + "/jobs/" + w.Job(1, name))
			if detail := got.String("detail"); !strings.Contains(detail, want) {
				t.Errorf("the detail of %s is %q, want %q in it", name, detail, want)
			}
			servertest.WantEqual(t, "triggered_build", got.At("triggered_build"), nil)
		}
	})
}

func TestTrigger_IsCanceledWithItsBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.CreateAll(nil)
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.Follow()
		w.WantStates(1, "canceled", "go canceled")
		servertest.WantEqual(t, "the child", w.Ada.Get(child+"/1").String("state"), "canceled")
		if reason := w.Ada.Get(child + "/1").String("cancel_reason"); !strings.Contains(reason, "triggered") {
			t.Errorf("cancel_reason is %q", reason)
		}
		// That of an asynchronous trigger goes on.
		w.Steps(`{trigger: child, label: go, async: true}`, "{command: a, key: a}")
		w.CreateAll(nil)
		w.Ada.Put(hello+"/2/cancel", nil).Want(http.StatusOK)
		w.Follow()
		servertest.WantEqual(t, "the child of an asynchronous trigger", w.Ada.Get(child+"/2").String("state"), "scheduled")
	})
}

func TestTrigger_KeepsJobsOfItsBuildFromBeingRetriedOnceCanceled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.Ada.Patch(acme+"/pipelines/child", map[string]any{"configuration": "steps: [{command: a, key: a}, {command: b, key: b}]"}).Want(http.StatusOK)
		w.Steps(`{trigger: child, label: go}`, "{command: later, key: later}")
		w.CreateAll(nil)
		failed := w.Ada.Get(child + "/1").String("jobs.0.id")
		last := w.Ada.Get(child + "/1").String("jobs.1.id")
		for _, id := range []string{failed, last} {
			w.Start(id)
			w.End(id, 1)
		}
		w.Follow()
		servertest.WantEqual(t, "the child", w.Ada.Get(child+"/1").String("state"), "failed")
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.Follow()
		w.Ada.Put(acme+"/jobs/"+failed+"/retry", nil).
			WantMessage(http.StatusUnprocessableEntity, "Jobs from builds that were triggered by a canceled build cannot be retried")
		w.Ada.Put(child+"/1/retry_failed_jobs", nil).Want(http.StatusUnprocessableEntity)
	})
}

func TestTrigger_CanBeRetriedWithANewBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.CreateAll(nil)
		w.runChild(1, 1)
		first := w.Job(1, "go")
		retried := w.Ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK)
		servertest.WantAt(t, retried, map[string]any{"type": "trigger", "state": "scheduled", "retries_count": 1, "retry_source_job_id": first, "triggered_build": nil})
		w.Follow()
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+retried.String("id")), map[string]any{"state": "running", "triggered_build.number": 2})
		servertest.WantEqual(t, "the first attempt's build", w.Ada.Get(acme+"/jobs/"+first).String("triggered_build.number"), "1")
		w.runChild(2, 0)
		w.WantStates(1, "passed", "go failed, go passed")
	})
}

func TestTrigger_IsSkippedWithItsBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.Ada.Patch(acme+"/pipelines/child", map[string]any{"skip_queued_branch_builds": true}).Want(http.StatusOK)
		w.CreateAll(nil)
		w.CreateAll(nil)
		servertest.WantEqual(t, "the first child", w.Ada.Get(child+"/1").String("state"), "skipped")
		servertest.WantEqual(t, "the first trigger", w.Ada.Get(acme+"/jobs/"+w.Job(1, "go")).String("state"), "skipped")
		w.WantStates(2, "running", "go running")
	})
}

func TestTrigger_IsSkippedWhenItsBuildMakesWayWhileItRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.Ada.Patch(acme+"/pipelines/child", map[string]any{"cancel_running_branch_builds": true}).Want(http.StatusOK)
		w.CreateAll(nil)
		id := w.Ada.Get(child + "/1").String("jobs.0.id")
		w.Start(id)
		w.CreateAll(nil)
		servertest.WantEqual(t, "the first child", w.Ada.Get(child+"/1").String("state"), "canceling")
		w.End(id, 143)
		w.Follow()
		servertest.WantEqual(t, "the first child", w.Ada.Get(child+"/1").String("state"), "canceled")
		servertest.WantEqual(t, "the first trigger", w.Ada.Get(acme+"/jobs/"+w.Job(1, "go")).String("state"), "skipped")
		w.WantStates(2, "running", "go running")
	})
}

func TestTrigger_WaitsForABlockedBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		for number, state := range []string{"passed", "failed", "running"} {
			number++
			w.Ada.Patch(acme+"/pipelines/child", map[string]any{"configuration": "steps: [{command: a}, {block: Go, blocked_state: " + state + "}]"}).Want(http.StatusOK)
			w.CreateAll(nil)
			w.runChild(number, 0)
			servertest.WantAt(t, w.Ada.Get(fmt.Sprintf("%s/%d", child, number)), map[string]any{"state": state, "blocked": true})
			w.WantStates(number, "running", "go running")
			ask := w.Ada.Get(fmt.Sprintf("%s/%d", child, number)).String("jobs.1.id")
			w.Ada.Put(acme+"/jobs/"+ask+"/unblock", nil).Want(http.StatusOK)
			w.Follow()
			w.WantStates(number, "passed", "go passed")
		}
	})
}

func TestTrigger_CountsParallelBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go, parallelism: 2}`)
		created := w.CreateAll(nil)
		servertest.WantAt(t, created, map[string]any{"jobs.1.parallel_group_index": 1, "jobs.1.parallel_group_total": 2, "jobs.1.triggered_build.number": 2})
		servertest.WantAt(t, w.Ada.Get(child+"/2"), map[string]any{"env": map[string]any{"SERVICE_PARALLEL_JOB": "1", "SERVICE_PARALLEL_JOB_COUNT": "2"}})
	})
}

func TestTrigger_EndsChainsThatGoOnForEver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{trigger: hello, label: again}")
		w.CreateAll(nil)
		servertest.WantEqual(t, "builds", w.Ada.Get(hello+"?per_page=100&exclude_jobs=1").Len(""), 11)
		last := w.Ada.Get(acme + "/jobs/" + w.Job(11, "again"))
		servertest.WantAt(t, last, map[string]any{"state": "failed", "detail": "A chain of builds can have at most 10 triggers"})
		w.WantStates(1, "failed", "again failed")
	})
}

func TestTrigger_BoundsBuildsThatDescendFromOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		servertest.WantEqual(t, "the limit unless set", quotas.Default.TriggeredBuilds, 500)
		w.Apply("organizations: [{slug: acme, limits: {triggered_builds: 20}}]")
		w.Steps("{trigger: hello, label: left}", "{trigger: hello, label: right}")
		created := w.Create(nil)
		servertest.WantEqual(t, "the state of the answer", created.String("state"), "scheduled")
		servertest.WantEqual(t, "builds when the request was answered", len(w.rowsOf(`SELECT id FROM builds`)), 1)
		w.Follow()
		servertest.WantEqual(t, "builds", len(w.rowsOf(`SELECT id FROM builds`)), 21)
		servertest.WantEqual(t, "unfinished builds", len(w.rowsOf(`SELECT id FROM builds WHERE finished_at IS NULL`)), 0)
		const why = "The build that started this chain of triggers has 20 descendants, the limit of the organization"
		servertest.WantEqual(t, "jobs that were refused", len(w.rowsOf(`SELECT id FROM jobs WHERE detail = '`+why+`'`)), 22)
		w.wantTasks("build-consequence", 0)
		// Another build is a root of its own, and so is a rebuild.
		w.CreateAll(nil)
		servertest.WantEqual(t, "builds", len(w.rowsOf(`SELECT id FROM builds`)), 42)
	})
}

func TestTrigger_CancelsABuildThatWasMadeWhileItsTriggerWasCanceled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.child(`{trigger: child, label: go}`)
		w.Create(nil)
		trigger := w.Job(1, "go")
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.Follow() // finds no build to cancel
		var p *pipelines.Pipeline
		w.WantNoError(w.DB.Read(t.Context(), func(q *db.Q) (err error) {
			p, err = pipelines.BySlug(q, pipelines.System(w.OrgID), "child")
			return err
		}))
		_, err := w.Service.Create(t.Context(), p, lifecycle.Creation{Commit: "HEAD", Branch: "trunk", Source: builds.FromTrigger, TriggeredBy: trigger})
		w.WantNoError(err)
		w.WantNoError(w.Service.EndStart(t.Context(), w.OrgID, trigger))
		w.Follow()
		servertest.WantEqual(t, "the child", w.Ada.Get(child+"/1").String("state"), "canceled")
	})
}
