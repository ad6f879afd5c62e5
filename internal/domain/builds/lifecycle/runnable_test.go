package lifecycle_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// rowsOf returns the rows of a query, as text and in its order.
func (w *world) rowsOf(query string, args ...any) (rows []string) {
	w.T.Helper()
	w.WantNoError(w.DB.Read(w.T.Context(), func(q *db.Q) (err error) {
		rows, err = db.All(q, func(scan db.Scan) (row string, err error) { return row, scan(&row) }, query, args...)
		return err
	}))
	return rows
}

// wantRunnable fails the test unless exactly the scheduled command jobs can be handed to agents, each with
// the queue, rules, priority and times that it has.
func (w *world) wantRunnable() {
	w.T.Helper()
	const row = ` || ' ' || organization_id || ' ' || build_id || ' ' || COALESCE(queue_id, 'none') || ' ' || COALESCE(rule_set, '') || ' ' || priority || ' ' || scheduled_at AS row `
	jobs := w.rowsOf(`SELECT id` + row + `FROM jobs WHERE type = 'script' AND state = 'scheduled' ORDER BY id`)
	runnable := w.rowsOf(`SELECT job_id` + row + `FROM runnable ORDER BY job_id`)
	if got, want := strings.Join(runnable, "\n"), strings.Join(jobs, "\n"); got != want {
		w.T.Errorf("runnable are\n%s\nscheduled are\n%s", got, want)
	}
}

// runnable returns the commands of the jobs that can be handed to agents.
func (w *world) runnable() string {
	w.T.Helper()
	return strings.Join(w.rowsOf(`
		SELECT s.key FROM runnable r JOIN jobs j ON j.id = r.job_id JOIN steps s ON s.id = j.step_id
		ORDER BY r.priority DESC, r.scheduled_at, r.job_id`), " ")
}

func TestRunnable_IsWhatIsScheduled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, priority: 1}", "{command: b, key: b}", "{command: c, key: c, priority: 2}", "{trigger: hello, key: t, async: true, branches: none}", "wait", "{command: d, key: d}")
		w.Create(nil)
		want := func(after, want string) {
			t.Helper()
			servertest.WantEqual(t, "after "+after, w.runnable(), want)
			w.wantRunnable()
		}
		ctx := t.Context()
		want("create", "c a b")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "b")+"/reprioritize", map[string]any{"priority": 3}).Want(http.StatusOK)
		want("reprioritize", "b c a")
		w.WantNoError(w.Assign(w.Job(1, "c")))
		want("assign", "b a")
		w.Pass(30 * time.Second)
		want("not accepted", "b c a")
		w.Run(1, "c", 1)
		want("a failure", "b a")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "c")+"/retry", nil).Want(http.StatusOK)
		want("a retry", "b c a")
		w.Run(1, "c", 0)
		w.Run(1, "b", 0)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/cancel", nil).Want(http.StatusOK)
		want("a cancel", "")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/retry", nil).Want(http.StatusOK)
		w.Pass(expiry)
		want("expiry", "")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/retry", nil).Want(http.StatusOK)
		w.Run(1, "a", 0)
		want("the wait", "d")
		w.WantNoError(w.DB.Write(ctx, func(q *db.Q) error {
			_, err := q.Exec(`DELETE FROM builds`)
			return err
		}))
		want("the build's end", "")
	})
}

func TestRunnable_HasJobsWithoutAQueueToo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Ada.Patch(acme+"/clusters/"+servertest.AcmeClusterID, map[string]any{"default_queue_id": nil}).Want(http.StatusOK)
		w.Steps("{command: a, key: a}")
		w.Create(nil)
		w.wantRunnable()
		servertest.WantEqual(t, "runnable", w.runnable(), "a")
	})
}

func TestRunnable_JobsWithoutAQueueGetTheDefaultOneWhenThereIsOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		choose := func(queue any) {
			w.Ada.Patch(acme+"/clusters/"+servertest.AcmeClusterID, map[string]any{"default_queue_id": queue}).Want(http.StatusOK)
		}
		choose(nil)
		w.Steps("{command: a, key: a}", "{command: c, key: c}", "wait", "{command: b, key: b}")
		w.Create(nil)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "c")+"/cancel", nil).Want(http.StatusOK)
		w.Create(nil)
		w.Ada.Put(hello+"/2/cancel", nil).Want(http.StatusOK)
		reason := func(id string) string { return w.Ada.Get(acme + "/jobs/" + id + "/explain").String("reason") }
		servertest.WantEqual(t, "before", reason(w.Job(1, "a")), "It names no queue and its cluster has no default one, so no agent can take it.")
		choose(servertest.AcmeQueueID)
		servertest.WantEqual(t, "after", reason(w.Job(1, "a")), "It waits for an agent of the queue default.")
		w.wantRunnable()
		w.Run(1, "a", 0)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "c")+"/retry", nil).Want(http.StatusOK)
		w.Run(1, "c", 0)
		servertest.WantEqual(t, "what comes later", reason(w.Job(1, "b")), "It waits for an agent of the queue default.")
		w.wantRunnable()
	})
}

func TestRunnable_NamesTheSameRulesAlike(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			"{command: a, key: none}", "{command: a, key: queue, agents: {queue: default}}",
			"{command: a, key: map, agents: {os: linux, gpu: }}", "{command: a, key: list, agents: [\"gpu=*\", os=linux, queue=default]}", "{command: a, key: other, agents: {os: linux}}",
			"{command: a, key: matrix, agents: {os: \"{{matrix}}\"}, matrix: [linux, plan9]}",
		)
		w.Create(nil)
		sets := w.rowsOf(`SELECT COALESCE(s.rules, 'none') FROM runnable r LEFT JOIN rule_sets s ON s.organization_id = r.organization_id AND s.id = r.rule_set ORDER BY r.job_id`)
		servertest.WantEqual(t, "rules", strings.Join(sets, " "), `none none ["gpu=*","os=linux"] ["gpu=*","os=linux"] ["os=linux"] ["os=linux"] ["os=plan9"]`)
		w.Create(nil)
		servertest.WantEqual(t, "sets", strings.Join(w.rowsOf(`SELECT rules FROM rule_sets ORDER BY rules`), " "), `["gpu=*","os=linux"] ["os=linux"] ["os=plan9"]`)
	})
}

func TestUpgrade_LetsJobsBeHandedOutThatAreOlderThanDispatch(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, agents: {os: linux}}", "{command: m, key: m, matrix: [1, 2], agents: {size: \"{{matrix}}\"}}", "{command: p, key: p}", "wait", "{command: b, key: b, agents: {os: linux}}")
		for range 25 {
			w.Create(nil)
		}
		rules := `SELECT COALESCE(rule_set, 'none') FROM jobs ORDER BY id`
		before := w.rowsOf(rules)
		w.WantNoError(w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err1 := q.Exec(`UPDATE jobs SET rule_set = NULL`)
			_, err2 := q.Exec(`DELETE FROM runnable`)
			_, err3 := q.Exec(`DELETE FROM rule_sets`)
			_, err4 := q.Exec(`INSERT INTO tasks (kind, key, due_at, run_at, attempts) SELECT 'job-rules', '', 0, 0, 0 FROM builds LIMIT 1`)
			return errors.Join(err1, err2, err3, err4)
		}))
		w.Create(nil) // by the new program
		w.Pass(0)
		w.wantRunnable()
		servertest.WantEqual(t, "rules", strings.Join(w.rowsOf(rules)[:len(before)], " "), strings.Join(before, " "))
		servertest.WantEqual(t, "sets", len(w.rowsOf(`SELECT id FROM rule_sets`)), 3)
		w.wantTasks("job-rules", 0)
	})
}

// Whatever is done to builds, in whatever order, what can be handed to agents is what is scheduled.
func TestRunnable_IsWhatIsScheduledAfterAnything(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			"{command: a, key: a, parallelism: 2, agents: {os: linux}, retry: {automatic: {limit: 1}}}", "{command: g, key: g, parallelism: 2, concurrency: 1, concurrency_group: one}",
			"{command: e, key: e, concurrency: 2, concurrency_group: two, concurrency_method: eager}", "wait", "{command: b, key: b, cancel_on_build_failing: true}", "{block: Go, key: ask}", "{command: c, key: c}",
		)
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 8))
			w.Create(nil)
			w.Create(nil)
			for range 25 {
				w.Clock.Advance(time.Second)
				action, err := w.disturb(random)
				if kind := core.KindOf(err); err != nil && kind != core.Unprocessable && kind != core.BadRequest {
					t.Fatalf("seed %d: %s: %v", seed, action, err)
				}
				if w.wantRunnable(); t.Failed() {
					t.Fatalf("seed %d, after %s", seed, action)
				}
			}
		}
	})
}

// disturb does something to some job, which may well be refused.
func (w *world) disturb(random *rand.Rand) (action string, err error) {
	jobs := w.rowsOf(`SELECT id FROM jobs ORDER BY build_id, position, id`)
	id := jobs[random.IntN(len(jobs))]
	build := w.rowsOf(`SELECT build_id FROM jobs WHERE id = $1`, id)[0]
	ctx, s, org := w.T.Context(), w.Service, w.OrgID
	status := random.IntN(2)
	acquire := func() error { return s.Acquire(ctx, org, id, buildstest.SomeAgent) }
	start := func() error { return s.Start(ctx, org, id, buildstest.SomeAgent) }
	finish := func() error { return s.Finish(ctx, org, id, buildstest.SomeAgent, flow.Exit{Status: status}, "") }
	actions := map[string]func() error{
		"assign":       func() error { return w.Assign(id) },
		"accept":       func() error { return s.Accept(ctx, org, id, buildstest.SomeAgent) },
		"acquire":      acquire,
		"start":        start,
		"finish":       finish,
		"run":          func() error { return errors.Join(acquire(), start(), finish()) },
		"return":       func() error { return s.Return(ctx, org, id, "") },
		"cancel":       func() error { return s.CancelJob(ctx, org, id) },
		"cancel build": func() error { return s.Cancel(ctx, org, build, "") },
		"retry":        func() error { _, err := s.Retry(ctx, org, id, nil); return err },
		"reprioritize": func() error { return s.Reprioritize(ctx, org, id, status) },
		"expire":       func() error { return s.Expire(ctx, org, id) },
		"deadlines":    func() error { w.Clock.Advance(time.Minute); return w.RunDue(ctx) },
		"upload": func() error {
			_, err := w.uploadAs(core.NewID(), id, status == 1, fmt.Sprintf("{command: up, agents: {size: %d}}", status))
			return err
		},
	}
	names := append(slices.Sorted(maps.Keys(actions)), "run", "run", "run", "run")
	action = names[random.IntN(len(names))]
	return action, actions[action]()
}
