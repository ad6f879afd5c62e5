package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// fill adds runnable jobs with a set of rules to acme's default queue, behind all others. They are copies
// of a job of a build, which does not know of them.
func (w *world) fill(jobs int, set string) { w.t.Helper(); w.fillFrom(0, jobs, set) }

// fillFrom adds more of them, when there are some.
func (w *world) fillFrom(have, jobs int, set string) {
	w.t.Helper()
	const batch = 20_000
	job := w.texts(`SELECT id FROM jobs WHERE type = 'script' ORDER BY id LIMIT 1`)[0]
	for from := have; from < have+jobs; from += batch {
		w.ok(w.Write(w.t.Context(), func(q *db.Q) error {
			n := min(batch, have+jobs-from)
			_, err := q.Exec(`
				WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
				INSERT INTO jobs (id, organization_id, build_id, step_id, position, type, state, priority, queue_id, unreachable,
					soft_failed, promise_fails, retried, retries_count, queued, created_at, scheduled_at, rule_set)
				SELECT $3 || CAST(1000000000 + $4 + n.i AS text), organization_id, build_id, step_id, $3 || CAST(1000000000 + $4 + n.i AS text), type, 'scheduled', -1, queue_id, unreachable,
					soft_failed, promise_fails, retried, retries_count, queued, created_at, scheduled_at + n.i, $3
				FROM jobs, n WHERE id = $1`, job, n, set, from)
			if err != nil {
				return err
			}
			_, err = q.Exec(`
				INSERT INTO runnable (job_id, organization_id, build_id, pipeline_id, queue_id, rule_set, priority, scheduled_at)
				SELECT j.id, j.organization_id, j.build_id, b.pipeline_id, j.queue_id, j.rule_set, j.priority, j.scheduled_at
				FROM jobs j JOIN builds b ON b.id = j.build_id
				WHERE j.rule_set = $1 AND j.id > $2 AND j.id <= $3`,
				set, fmt.Sprint(set, 1_000_000_000+from), fmt.Sprint(set, 1_000_000_000+from+n))
			return err
		}))
	}
}

// The rows that a scan reads do not grow with the jobs that match no waiting agent.
func TestLook_CostsTheSameInALongQueue(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		w := newWorld(t, dbtest.New(t, db.PostgreSQL))
		w.build("{command: a}")
		work := func() string {
			w.exec(`ANALYZE`)
			return w.explain("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) ")
		}
		w.fill(100, "gpu")
		w.fill(100, "mac")
		few := work()
		w.fill(20_000-100, "win")
		w.fill(30_000, "zos")
		many := work()
		for what, plan := range map[string]string{"few": few, "many": many} {
			if strings.Contains(plan, "Seq Scan on runnable") || strings.Contains(plan, "Sort") || !strings.Contains(plan, "runnable_best") || !strings.Contains(plan, "runnable_share") {
				t.Errorf("%s jobs:\n%s", what, plan)
			}
			for line := range strings.Lines(plan) {
				var rows int
				if at := strings.Index(line, "actual rows="); strings.Contains(line, "runnable") && at > 0 {
					fmt.Sscanf(line[at:], "actual rows=%d", &rows)
				}
				if rows > 10 {
					t.Errorf("%s jobs: %d rows are read by %s", what, rows, line)
				}
			}
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		w := newWorld(t, dbtest.New(t, db.SQLite))
		plan := w.explain("EXPLAIN QUERY PLAN ")
		if strings.Contains(plan, "SCAN runnable") || strings.Contains(plan, "SCAN r\n") || strings.Contains(plan, "TEMP B-TREE") || !strings.Contains(plan, "runnable_best") || !strings.Contains(plan, "runnable_share") {
			t.Error(plan)
		}
	})
}

// explain returns how the database does what a look asks for.
func (w *world) explain(how string) (plan string) {
	w.t.Helper()
	w.ok(w.Read(w.t.Context(), func(q *db.Q) error {
		plan = ""
		for _, query := range dispatch.Queries(q, servertest.AcmeQueueID, 10, "gpu", "", "none", "mac") {
			rows, err := q.Query(how+query.Text, query.Args...)
			if err != nil {
				return err
			}
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			for rows.Next() {
				line := make([]any, len(columns))
				var text string
				for i := range line {
					line[i] = new(any)
				}
				line[len(line)-1] = &text
				if err := rows.Scan(line...); err != nil {
					return err
				}
				plan += text + "\n"
			}
			if err := rows.Close(); err != nil {
				return err
			}
		}
		return nil
	}))
	return plan
}

func TestPoll_FindsOnlyWhatWasNotThereBefore(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build("{command: a, key: gpu, agents: {gpu: nvidia}}")
		waiting := w.wait(w.agent("agent", "os=linux"))
		w.waiting(1)
		w.settle()
		looked := w.looks()
		w.ok(w.Poll(t.Context()))
		w.settle()
		wantEqual(t, "looks", w.looks(), looked)
		w.fill(1, dispatch.RuleSetOf([]string{"os=linux"}).ID) // without a word to anybody
		w.ok(w.Write(t.Context(), func(q *db.Q) error {
			return dispatch.Intern(q, w.org, time.Now(), dispatch.RuleSetOf([]string{"os=linux"}))
		}))
		w.ok(w.Poll(t.Context()))
		waiting.get()
	})
}
