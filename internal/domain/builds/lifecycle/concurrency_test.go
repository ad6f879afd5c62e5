package lifecycle_test

import (
	"fmt"
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

// deploys is a step of the concurrency group deploy, which lets one job run at a time.
const deploys = "{command: deploy, key: deploy, concurrency: 1, concurrency_group: deploy}"

// deployOf returns the id of the job deploy of a build.
func (w *world) deployOf(path string) string {
	w.T.Helper()
	for _, j := range w.ListJobs(path + "/jobs") {
		if j.StepKey == "deploy" && j.State != "failed" {
			return j.ID
		}
	}
	w.T.Fatalf("%s has no job deploy", path)
	return ""
}

// wantDeploys fails the test unless the jobs deploy of builds are in states; builds and states alternate.
func (w *world) wantDeploys(after string, pairs ...string) {
	w.T.Helper()
	for i := 0; i < len(pairs); i += 2 {
		path, state := pairs[i], pairs[i+1]
		if got := w.Ada.Get(acme + "/jobs/" + w.deployOf(path)).String("state"); got != state {
			w.T.Errorf("after %s: deploy of %s is %s, want %s", after, path, got, state)
		}
	}
}

// deploy lets the job deploy of a build run.
func (w *world) deploy(path string, status int) {
	w.T.Helper()
	id := w.deployOf(path)
	w.Start(id)
	w.End(id, status)
	w.Follow()
}

func buildOf(pipeline string, number int) string {
	return fmt.Sprintf("%s/pipelines/%s/builds/%d", acme, pipeline, number)
}

func TestConcurrency_ATriggeredBuildHasThePlaceOfTheOneThatWaitsForIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("inner", nil, deploys)
		w.AddPipeline("middle", nil, "{trigger: inner}", "wait", deploys)
		w.AddPipeline("other", nil, deploys)
		w.Steps("{command: first, key: first}", "wait", "{trigger: middle}", "wait", deploys)
		w.Create(nil)
		w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		outer, middle, inner, other := hello+"/1", buildOf("middle", 1), buildOf("inner", 1), buildOf("other", 1)
		w.wantDeploys("creation", outer, "waiting", other, "limited")
		w.Run(1, "first", 0)
		w.Follow()
		w.wantDeploys("the triggers", outer, "waiting", middle, "waiting", inner, "scheduled", other, "limited")
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+w.deployOf(other)+"/explain"), map[string]any{"concurrency.active": 1, "concurrency.ahead": 2})
		w.deploy(inner, 0)
		w.wantDeploys("the innermost", outer, "waiting", middle, "scheduled", other, "limited")
		w.deploy(middle, 0)
		w.wantDeploys("the middle", outer, "scheduled", other, "limited")
		w.deploy(outer, 0)
		w.wantDeploys("the outermost", other, "scheduled")
		servertest.WantEqual(t, "the outermost build", w.Build(1).String("state"), "passed")
	})
}

func TestConcurrency_PutsOrphanedBuildsLast(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("free", nil, deploys)
		w.AddPipeline("other", nil, deploys)
		w.Steps("{command: first, key: first}", "wait", "{trigger: free, async: true}", "{command: last, key: last}")
		w.Create(nil)
		for range 2 {
			w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		}
		w.Run(1, "first", 0)
		w.Follow()
		w.wantDeploys("the trigger", buildOf("other", 1), "scheduled", buildOf("other", 2), "limited", buildOf("free", 1), "limited")
		w.Ada.Put(buildOf("other", 1)+"/rebuild", nil).Want(http.StatusOK)
		w.deploy(buildOf("other", 1), 0)
		w.deploy(buildOf("other", 2), 0)
		w.wantDeploys("the others", buildOf("free", 1), "scheduled", buildOf("other", 3), "limited")
	})
}

func TestConcurrency_ARetryKeepsThePlaceOfItsBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("inner", nil, deploys)
		w.AddPipeline("other", nil, deploys)
		w.Steps("{trigger: inner, key: go}", "wait", deploys)
		w.CreateAll(nil)
		for range 2 {
			w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		}
		w.deploy(buildOf("inner", 1), 1)
		w.wantDeploys("the failure", buildOf("other", 1), "scheduled", buildOf("other", 2), "limited")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "go")+"/retry", nil).Want(http.StatusOK)
		w.Follow()
		w.wantDeploys("the retry", buildOf("inner", 2), "limited", hello+"/1", "waiting")
		w.deploy(buildOf("other", 1), 0)
		w.wantDeploys("the other", buildOf("inner", 2), "scheduled", buildOf("other", 2), "limited")
		w.deploy(buildOf("inner", 2), 0)
		w.deploy(hello+"/1", 0)
		w.wantDeploys("all", buildOf("other", 2), "scheduled")
	})
}

func TestConcurrency_EagerJobsCountAheadOfOrderedOnesOnlyOnceTheyCanStart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("other", nil, deploys)
		w.Steps("{command: first, key: first}", "wait", "{command: deploy, key: deploy, concurrency: 1, concurrency_group: deploy, concurrency_method: eager}")
		w.Create(nil)
		for range 3 {
			w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		}
		w.wantDeploys("creation", hello+"/1", "waiting", buildOf("other", 1), "scheduled", buildOf("other", 2), "limited")
		w.Run(1, "first", 0)
		w.Follow()
		w.deploy(buildOf("other", 1), 0)
		w.wantDeploys("both can start", hello+"/1", "scheduled", buildOf("other", 2), "limited")
		w.deploy(hello+"/1", 0)
		w.wantDeploys("the eager one", buildOf("other", 2), "scheduled", buildOf("other", 3), "limited")
	})
}

func TestConcurrency_EagerJobsWithALargerLimitGoPastThoseThatCannotYet(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		step := func(key string, limit, priority int) string {
			return fmt.Sprintf("{command: %s, key: %s, concurrency: %d, concurrency_group: g, concurrency_method: eager, priority: %d}", key, key, limit, priority)
		}
		w.Steps(step("a", 1, 9), step("b", 1, 8), step("c", 3, 1), step("d", 2, 7), step("e", 3, 0), step("f", 9, 0))
		w.Create(nil)
		w.WantStates(1, "scheduled", "a scheduled, b limited, c scheduled, d scheduled, e limited, f scheduled")
		for _, key := range []string{"a", "c", "d"} {
			w.Run(1, key, 0)
		}
		w.WantStates(1, "running", "a passed, b limited, c passed, d passed, e scheduled, f scheduled")
	})
}
