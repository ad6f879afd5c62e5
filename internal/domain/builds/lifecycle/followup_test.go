package lifecycle_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/rules/flow"
)

// triggers gives hello the steps of a build that triggers one of child, and makes it.
func (w *world) triggers() {
	w.t.Helper()
	w.pipeline("child", nil, "command: work")
	w.steps("command: first", "wait", "{trigger: child, label: child}")
	w.create(nil)
}

// follow does what follows from builds for other builds.
func (w *world) follow() {
	w.t.Helper()
	w.pass(0)
}

// createAll makes a build of hello and what follows from it, and returns the build as it is then.
func (w *world) createAll(more map[string]any) *servertest.Response {
	w.t.Helper()
	created := w.create(more)
	w.follow()
	return w.ada.Get(hello + "/" + created.String("number")).Want(http.StatusOK)
}

const child = acme + "/pipelines/child/builds"

func TestFollow_MakesATriggeredBuildAsATask(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.run(1, "first", 0)
		w.wantStates(1, "running", "first passed, waiter passed, child scheduled")
		wantEqual(t, "builds of child", w.ada.Get(child).Len(""), 0)
		w.follow()
		w.wantStates(1, "running", "first passed, waiter passed, child running")
		wantEqual(t, "builds of child", w.ada.Get(child).Len(""), 1)
		w.wantTasks("build-consequence", 0)
	})
}

func TestFollow_EndsATriggerJobAsATask(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.run(1, "first", 0)
		w.follow()
		work := w.ada.Get(child + "/1").Want(http.StatusOK).String("jobs.0.id")
		w.start(work)
		w.end(work, 1)
		w.wantStates(1, "running", "first passed, waiter passed, child running")
		w.follow()
		w.wantStates(1, "failed", "first passed, waiter passed, child failed")
		w.wantTasks("build-consequence", 0)
	})
}

func TestFollow_CancelsATriggeredBuildAsATask(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.run(1, "first", 0)
		w.follow()
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		wantEqual(t, "the child", w.ada.Get(child+"/1").String("state"), "scheduled")
		w.follow()
		wantEqual(t, "the child", w.ada.Get(child+"/1").String("state"), "canceled")
		w.wantTasks("build-consequence", 0)
	})
}

func TestFollow_LeavesNothingToBeDoneTwice(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(acme+"/pipelines/hello", map[string]any{"skip_queued_branch_builds": true}).Want(http.StatusOK)
		w.triggers()
		w.create(nil)
		w.follow()
		wantEqual(t, "the older build", w.build(1).String("state"), "skipped")
		w.run(2, "first", 0)
		w.follow()
		work := w.ada.Get(child + "/1").String("jobs.0.id")
		w.start(work)
		w.end(work, 0)
		w.follow()
		wantEqual(t, "the newer build", w.build(2).String("state"), "passed")
		w.wantTasks("build-consequence", 0)
		w.wantTasks("job-expiry", 0)
	})
}

func TestTime_HasConsequencesForOtherBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.run(1, "first", 0)
		w.follow()
		w.pass(expiry)
		wantEqual(t, "the child", w.ada.Get(child+"/1").String("state"), "failed")
		w.wantStates(1, "failed", "first passed, waiter passed, child failed")
	})
}

func TestConcurrency_GivesAPlaceToAnotherBuild(t *testing.T) {
	ends := map[string]func(w *world){
		"when its holder passes": func(w *world) { w.run(1, "deploy", 0) },
		"when its holder fails":  func(w *world) { w.run(1, "deploy", 1) },
		"when its holder is canceled": func(w *world) {
			w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		},
		"when its holder does not stop": func(w *world) {
			w.start(w.job(1, "deploy"))
			w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
			w.pass(grace)
		},
		"when its holder runs for too long": func(w *world) {
			w.start(w.job(1, "deploy"))
			w.pass(10 * time.Minute)
			w.pass(grace)
		},
		"when nobody starts its holder": func(w *world) { w.pass(expiry) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.steps("{command: deploy, concurrency: 1, concurrency_group: production, timeout_in_minutes: 10}")
				w.create(nil)
				w.create(nil)
				w.wantStates(2, "scheduled", "deploy limited")
				end(w)
				w.wantStates(2, "scheduled", "deploy scheduled")
				w.pass(expiry - time.Second) // which counts from now
				w.wantStates(2, "scheduled", "deploy scheduled")
				w.pass(time.Second)
				w.wantStates(2, "failed", "deploy expired")
			})
		})
	}
}

func TestConcurrency_IsKeptByBuildsThatRunAtTheSameTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: one, concurrency: 2, concurrency_group: g}", "{command: two, concurrency: 2, concurrency_group: g}", "command: free")
		const builds = 6
		for range builds {
			w.create(nil)
		}
		var all sync.WaitGroup
		for left := 2 * builds; left > 0; left -= 2 {
			var scheduled []string
			for number := 1; number <= builds; number++ {
				for _, j := range w.jobs(number) {
					if j.State == "scheduled" && j.Command != "free" {
						scheduled = append(scheduled, j.ID)
					}
				}
			}
			if len(scheduled) != 2 {
				t.Fatalf("%d jobs have a place, want 2, with %d to go", len(scheduled), left)
			}
			for _, id := range scheduled {
				all.Go(func() {
					if err := w.through(id); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		for number := 1; number <= builds; number++ {
			if got := w.states(number); !strings.HasPrefix(got, "one passed, two passed") {
				t.Error(fmt.Sprint("build ", number, ": ", got))
			}
		}
	})
}

// through takes a job through an agent's hands.
func (w *world) through(id string) error {
	ctx := w.t.Context()
	for _, move := range []func(context.Context, string, string, string) error{w.service.Acquire, w.service.Start} {
		if err := move(ctx, w.orgID, id, someAgent); err != nil {
			return err
		}
	}
	return w.service.Finish(ctx, w.orgID, id, someAgent, flow.Exit{}, "")
}

func TestPipelineRemoval_LetsBuildsGoOnThatWaitedForItsOwn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.run(1, "first", 0)
		w.follow()
		w.pipeline("holder", nil, "{command: holds, concurrency: 1, concurrency_group: g}")
		w.ada.Post(acme+"/pipelines/holder/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		w.steps("{command: waits, concurrency: 1, concurrency_group: g}")
		w.create(nil)
		w.wantStates(2, "scheduled", "waits limited")
		w.ada.Delete(acme + "/pipelines/child").Want(http.StatusNoContent)
		w.ada.Delete(acme + "/pipelines/holder").Want(http.StatusNoContent)
		w.pass(0)
		w.wantStates(1, "failed", "first passed, waiter passed, child failed")
		wantAt(t, w.build(1), map[string]any{"jobs.2.detail": "The build that it triggered was deleted."})
		w.wantStates(2, "scheduled", "waits scheduled")
	})
}
