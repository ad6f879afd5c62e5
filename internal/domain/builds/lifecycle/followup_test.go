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
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/rules/flow"
)

// triggers gives hello the steps of a build that triggers one of child, and makes it.
func (w *world) triggers() {
	w.T.Helper()
	w.AddPipeline("child", nil, "command: work")
	w.Steps("command: first", "wait", "{trigger: child, label: child}")
	w.Create(nil)
}

const child = acme + "/pipelines/child/builds"

func TestFollow_MakesATriggeredBuildAsATask(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.Run(1, "first", 0)
		w.WantStates(1, "running", "first passed, waiter passed, child scheduled")
		servertest.WantEqual(t, "builds of child", w.Ada.Get(child).Len(""), 0)
		w.Follow()
		w.WantStates(1, "running", "first passed, waiter passed, child running")
		servertest.WantEqual(t, "builds of child", w.Ada.Get(child).Len(""), 1)
		w.wantTasks("build-consequence", 0)
	})
}

func TestFollow_EndsATriggerJobAsATask(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.Run(1, "first", 0)
		w.Follow()
		work := w.Ada.Get(child + "/1").Want(http.StatusOK).String("jobs.0.id")
		w.Start(work)
		w.End(work, 1)
		w.WantStates(1, "running", "first passed, waiter passed, child running")
		w.Follow()
		w.WantStates(1, "failed", "first passed, waiter passed, child failed")
		w.wantTasks("build-consequence", 0)
	})
}

func TestFollow_CancelsATriggeredBuildAsATask(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.Run(1, "first", 0)
		w.Follow()
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "the child", w.Ada.Get(child+"/1").String("state"), "scheduled")
		w.Follow()
		servertest.WantEqual(t, "the child", w.Ada.Get(child+"/1").String("state"), "canceled")
		w.wantTasks("build-consequence", 0)
	})
}

func TestFollow_LeavesNothingToBeDoneTwice(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"skip_queued_branch_builds": true}).Want(http.StatusOK)
		w.triggers()
		w.Create(nil)
		w.Follow()
		servertest.WantEqual(t, "the older build", w.Build(1).String("state"), "skipped")
		w.Run(2, "first", 0)
		w.Follow()
		work := w.Ada.Get(child + "/1").String("jobs.0.id")
		w.Start(work)
		w.End(work, 0)
		w.Follow()
		servertest.WantEqual(t, "the newer build", w.Build(2).String("state"), "passed")
		w.wantTasks("build-consequence", 0)
		w.wantDeadlines(0)
	})
}

func TestTime_HasConsequencesForOtherBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.Run(1, "first", 0)
		w.Follow()
		w.Pass(expiry)
		servertest.WantEqual(t, "the child", w.Ada.Get(child+"/1").String("state"), "failed")
		w.WantStates(1, "failed", "first passed, waiter passed, child failed")
	})
}

func TestConcurrency_GivesAPlaceToAnotherBuild(t *testing.T) {
	ends := map[string]func(w *world){
		"when its holder passes": func(w *world) { w.Run(1, "deploy", 0) },
		"when its holder fails":  func(w *world) { w.Run(1, "deploy", 1) },
		"when its holder is canceled": func(w *world) {
			w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		},
		"when its holder does not stop": func(w *world) {
			w.Start(w.Job(1, "deploy"))
			w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
			w.Pass(grace)
		},
		"when its holder runs for too long": func(w *world) {
			w.Start(w.Job(1, "deploy"))
			w.Pass(10 * time.Minute)
			w.Pass(grace)
		},
		"when its holder never starts": func(w *world) { w.Pass(expiry) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.Steps("{command: deploy, concurrency: 1, concurrency_group: production, timeout_in_minutes: 10}")
				w.Create(nil)
				w.Create(nil)
				w.WantStates(2, "scheduled", "deploy limited")
				end(w)
				w.WantStates(2, "scheduled", "deploy scheduled")
				w.Pass(expiry - time.Second) // which counts from now
				w.WantStates(2, "scheduled", "deploy scheduled")
				w.Pass(time.Second)
				w.WantStates(2, "failed", "deploy expired")
			})
		})
	}
}

func TestConcurrency_IsKeptByBuildsThatRunAtTheSameTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: one, concurrency: 2, concurrency_group: g}", "{command: two, concurrency: 2, concurrency_group: g}", "command: free")
		const builds = 6
		for range builds {
			w.Create(nil)
		}
		var all sync.WaitGroup
		for left := 2 * builds; left > 0; left -= 2 {
			var scheduled []string
			for number := 1; number <= builds; number++ {
				for _, j := range w.Jobs(number) {
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
			if got := w.States(number); !strings.HasPrefix(got, "one passed, two passed") {
				t.Error(fmt.Sprint("build ", number, ": ", got))
			}
		}
	})
}

// through takes a job through an agent's hands.
func (w *world) through(id string) error {
	ctx := w.T.Context()
	for _, move := range []func(context.Context, string, string, string) error{w.Service.Acquire, w.Service.Start} {
		if err := move(ctx, w.OrgID, id, buildstest.SomeAgent); err != nil {
			return err
		}
	}
	return w.Service.Finish(ctx, w.OrgID, id, buildstest.SomeAgent, flow.Exit{}, "")
}

func TestPipelineRemoval_LetsBuildsGoOnThatWaitedForItsOwn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.triggers()
		w.Run(1, "first", 0)
		w.Follow()
		w.AddPipeline("holder", nil, "{command: holds, concurrency: 1, concurrency_group: g}")
		w.Ada.Post(acme+"/pipelines/holder/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		w.Steps("{command: waits, concurrency: 1, concurrency_group: g}")
		w.Create(nil)
		w.WantStates(2, "scheduled", "waits limited")
		w.Ada.Delete(acme + "/pipelines/child").Want(http.StatusNoContent)
		w.Ada.Delete(acme + "/pipelines/holder").Want(http.StatusNoContent)
		w.Pass(0)
		w.WantStates(1, "failed", "first passed, waiter passed, child failed")
		servertest.WantAt(t, w.Build(1), map[string]any{"jobs.2.detail": "The build that it triggered was deleted."})
		w.WantStates(2, "scheduled", "waits scheduled")
	})
}
