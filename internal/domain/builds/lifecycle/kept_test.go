package lifecycle_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

func TestKept_ReportsOfAgentsReadNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: a", "command: b")
		w.Create(nil)
		ctx, id := t.Context(), w.Job(1, "a")
		w.WantNoError(w.Assign(id))
		var mu sync.Mutex
		var reads []string
		w.DB.OnStatement(func(text string, _ []any) {
			mu.Lock()
			defer mu.Unlock()
			if text = strings.TrimSpace(text); strings.HasPrefix(text, "SELECT") && strings.Contains(text, "jobs j") {
				reads = append(reads, text)
			}
		})
		w.WantNoError(w.Service.Accept(ctx, w.OrgID, id, buildstest.SomeAgent))
		w.WantNoError(w.Service.Start(ctx, w.OrgID, id, buildstest.SomeAgent))
		w.WantNoError(w.Service.Finish(ctx, w.OrgID, id, buildstest.SomeAgent, flow.Exit{}, ""))
		w.DB.OnStatement(func(string, []any) {})
		mu.Lock()
		defer mu.Unlock()
		if len(reads) > 0 {
			t.Errorf("reports read %q", reads)
		}
		w.WantStates(1, "running", "a passed, b scheduled")
	})
}

func TestKept_NoticesWhatAnotherProcessChanged(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: a", "command: b")
		w.Create(nil)
		ctx, other := t.Context(), w.Builds()
		a, b := w.Job(1, "a"), w.Job(1, "b")
		w.WantNoError(w.Assign(a))
		w.WantNoError(other.Accept(ctx, w.OrgID, a, buildstest.SomeAgent))
		w.WantNoError(w.Service.Start(ctx, w.OrgID, a, buildstest.SomeAgent))
		w.WantNoError(other.Finish(ctx, w.OrgID, a, buildstest.SomeAgent, flow.Exit{Status: 1}, ""))
		w.WantNoError(w.Service.Finish(ctx, w.OrgID, a, buildstest.SomeAgent, flow.Exit{Status: 1}, "")) // a repeat
		w.WantNoError(w.Assign(b))
		w.WantNoError(other.CancelJob(ctx, w.OrgID, b))
		if err := w.Service.Accept(ctx, w.OrgID, b, buildstest.SomeAgent); core.KindOf(err) != core.Unprocessable {
			t.Errorf("a canceled job was accepted: %v", err)
		}
		w.WantStates(1, "failed", "a failed, b canceled")
	})
}

func TestKept_AssignsNoJobThatAStackHasReserved(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: a", "command: b")
		w.Create(nil)
		w.WantNoError(w.Assign(w.Job(1, "a")))
		b := w.Job(1, "b")
		w.WantNoError(w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE runnable SET reserved_by = 'stack', reserved_until = $2 WHERE job_id = $1`, b, db.Micros(w.Clock.Now().Add(time.Hour)))
			return err
		}))
		if err := w.Assign(b); core.KindOf(err) != core.Unprocessable {
			t.Errorf("a reserved job was assigned: %v", err)
		}
		servertest.WantEqual(t, "runnable", len(w.rowsOf(`SELECT job_id FROM runnable`)), 1)
		w.WantStates(1, "scheduled", "a assigned, b scheduled")
	})
}
