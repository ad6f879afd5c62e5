package stacks_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// The index of the list does not contain reserved jobs.
func TestList_ReadsNoReservedJobs(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		q := newLongQueue(t, dbtest.New(t, db.PostgreSQL), 1)
		q.exec(`UPDATE runnable SET reserved_by = 'robot', reserved_until = $1`, db.Micros(core.SystemClock().Add(time.Hour)))
		q.copyBuild(q.build, 100)
		q.As(t, servertest.Ada).Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		q.exec(`ANALYZE`)
		plan := q.explain("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) ")
		if !strings.Contains(plan, "Index Scan using runnable_oldest on runnable (actual rows=100 ") || strings.Contains(plan, "Removed") || strings.Contains(plan, "Sort") {
			t.Error(plan)
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		q := newLongQueue(t, dbtest.New(t, db.SQLite), 1)
		plan := q.explain("EXPLAIN QUERY PLAN ")
		if plan != "SEARCH runnable USING INDEX runnable_oldest (queue_id=? AND (scheduled_at,job_id)>(?,?))\n" {
			t.Error(plan)
		}
	})
}

// explain returns the query plan of the first page of the list.
func (q *longQueue) explain(how string) (plan string) {
	q.t.Helper()
	var statement string
	q.DB.OnStatement(func(text string, _ []any) { statement = text })
	err := q.DB.Read(q.t.Context(), func(sql *db.Q) error {
		_, err := dispatch.Scheduled(sql, servertest.AcmeQueueID, time.Time{}, "", 100)
		return err
	})
	if err != nil {
		q.t.Fatal(err)
	}
	list := statement
	err = q.DB.Read(q.t.Context(), func(sql *db.Q) error {
		rows, err := sql.Query(how+list, servertest.AcmeQueueID, 0, "", 100)
		if err != nil {
			return err
		}
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for plan = ""; rows.Next(); {
			line := make([]any, len(columns))
			for i := range line {
				line[i] = new(any)
			}
			var text string
			line[len(line)-1] = &text
			if err := rows.Scan(line...); err != nil {
				return err
			}
			plan += text + "\n"
		}
		return rows.Close()
	})
	if err != nil {
		q.t.Fatal(err)
	}
	return plan
}

func TestFinish_IsRefusedWhenAnotherStackReservesTheJobAtThatMoment(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.register("rival").Want(http.StatusCreated)
		finished := make(chan *servertest.Response, 1)
		err := w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`
				UPDATE runnable SET reserved_by = (SELECT id FROM stacks WHERE key = 'rival'), reserved_until = $2
				WHERE job_id = $1`, id, db.Micros(w.Clock.Now().Add(time.Hour)))
			if err != nil {
				return err
			}
			go func() { finished <- w.stack.Post(robot+"/jobs/"+id+"/finish", fields{"detail": "none"}) }()
			return awaitLock(w, q)
		})
		if err != nil {
			t.Fatal(err)
		}
		(<-finished).WantMessage(http.StatusNotFound, "No job found")
		wantEqual(t, "state", w.state(id), "reserved")
	})
}

// awaitLock waits until a write waits for a lock, on engines with concurrent writes.
func awaitLock(w *world, q *db.Q) error {
	if w.DB.Engine() == db.SQLite {
		return nil
	}
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		err := q.QueryRow(`
			SELECT EXISTS (
				SELECT 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
				WHERE NOT l.granted AND a.datname = current_database())`).Scan(&waits)
		if err != nil {
			return err
		}
	}
	return nil
}
