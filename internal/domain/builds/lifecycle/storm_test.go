package lifecycle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// People and agents act on the same builds at the same time. Whatever happens, no caller gets an error of the
// server, every build ends once all its jobs have, the pipeline counts to zero, and what can be handed to agents is
// what is scheduled.
func TestStorm_LeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			"{command: a, key: a, parallelism: 3, retry: {automatic: {limit: 1}}}", "{command: g, key: g, parallelism: 2, concurrency: 1, concurrency_group: storm}",
			"wait", "{block: Go, key: ask}", "{command: b, key: b, soft_fail: true}", "{command: c, key: c, depends_on: a, allow_dependency_failure: true}",
		)
		const count = 3
		for range count {
			w.Create(nil)
		}
		var all sync.WaitGroup
		for seed := range uint64(6) {
			all.Go(func() {
				random := rand.New(rand.NewPCG(seed, 7))
				for range 15 {
					w.act(t, random, 1+random.IntN(count))
				}
			})
		}
		all.Wait()
		w.wantRunnable()
		w.WantCounts()
		w.drain(count)
		w.wantRunnable()
		p := w.Ada.Get(acme + "/pipelines/hello")
		servertest.WantAt(t, p, map[string]any{"scheduled_builds_count": 0, "running_builds_count": 0, "scheduled_jobs_count": 0, "running_jobs_count": 0, "waiting_jobs_count": 0})
	})
}

// act does something to some job of a build, which may well be refused.
func (w *world) act(t *testing.T, random *rand.Rand, number int) {
	jobs := w.Jobs(number)
	j := jobs[random.IntN(len(jobs))]
	w.Clock.Advance(1e7)
	put := func(path string, body any) {
		if got := w.Ada.Put(path, body); got.Status >= http.StatusInternalServerError || got.Status == http.StatusNotFound {
			t.Errorf("PUT %s: status %d, %s", path, got.Status, got.Body)
		}
	}
	try := func(err error) {
		if kind := core.KindOf(err); err != nil && kind != core.Unprocessable {
			t.Errorf("job %s: %v", j.ID, err)
		}
	}
	ctx := t.Context()
	switch random.IntN(13) {
	case 0:
		put(acme+"/jobs/"+j.ID+"/retry", nil)
	case 1:
		put(acme+"/jobs/"+j.ID+"/unblock", nil)
	case 2:
		put(acme+"/jobs/"+j.ID+"/cancel", nil)
	case 3:
		put(fmt.Sprintf("%s/%d/retry_failed_jobs", hello, number), nil)
	case 4:
		put(acme+"/jobs/"+j.ID+"/reprioritize", map[string]any{"priority": random.IntN(9)})
	case 5:
		try(w.Assign(j.ID))
	case 6:
		try(w.Service.Return(ctx, w.OrgID, j.ID, ""))
	case 7:
		try(w.RunDue(ctx))
	default:
		w.push(ctx, j.ID, random.IntN(2), try)
	}
}

// push takes a job as far as an agent can.
func (w *world) push(ctx context.Context, id string, status int, try func(error)) {
	try(w.Service.Acquire(ctx, w.OrgID, id, buildstest.SomeAgent))
	try(w.Service.Start(ctx, w.OrgID, id, buildstest.SomeAgent))
	try(w.Service.Finish(ctx, w.OrgID, id, buildstest.SomeAgent, flow.Exit{Status: status}, ""))
}

// drain runs and unblocks whatever is left of the builds until all have ended. They hold places that others
// wait for, so none can be ended alone.
func (w *world) drain(builds int) {
	w.T.Helper()
	for range 20 {
		w.Clock.Advance(1e9)
		live := 0
		for number := 1; number <= builds; number++ {
			if w.Build(number).At("finished_at") == nil {
				live++
				w.bringOn(number)
			}
		}
		if live == 0 {
			return
		}
	}
	for number := 1; number <= builds; number++ {
		w.T.Errorf("build %d is %s: %s", number, w.Build(number).String("state"), w.States(number))
	}
}

// bringOn runs and unblocks what of a build can be.
func (w *world) bringOn(number int) {
	w.T.Helper()
	for _, j := range w.Jobs(number) {
		if j.State == "blocked" {
			w.Ada.Put(acme+"/jobs/"+j.ID+"/unblock", nil).Want(http.StatusOK)
			continue
		}
		w.push(w.T.Context(), j.ID, 0, func(error) {})
	}
}
