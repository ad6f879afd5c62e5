package retention_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/domain/builds/retention"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// rowsIn returns how many rows all tables have.
func (w *world) rowsIn() (n int) {
	w.T.Helper()
	for _, rows := range w.counts() {
		n += rows
	}
	return n
}

// Deleting a pipeline takes as many statements whatever it has, and what it has goes in batches.
func TestPipelineRemoval_RemovesAFewRowsAtATime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		before := w.counts()
		w.AddPipeline("large", nil, "{command: x, key: a, parallelism: 300}", "wait", "{command: y, key: b, parallelism: 300}", "{command: z, depends_on: [a, b]}")
		for i := range 4 {
			w.Ada.Post(acme+"/pipelines/large/builds", map[string]any{
				"commit": "HEAD", "branch": "main", "meta_data": map[string]any{"a": fmt.Sprint(i)},
			}).Want(http.StatusCreated)
		}
		large := w.Ada.Get(acme + "/pipelines/large").String("id")
		all := w.rowsIn()
		counter := dbtest.CountStatements(w.DB)
		w.Ada.Delete(acme + "/pipelines/large").Want(http.StatusNoContent)
		if counts := counter.Take(); counts.Of("DELETE", "UPDATE builds", "UPDATE jobs") > 0 {
			t.Errorf("the request removes rows: %v", counts)
		}
		servertest.WantEqual(t, "rows after the request", w.rowsIn(), all)
		for batches := 0; w.rowsIn() > all/50; batches++ {
			rows := w.rowsIn()
			w.WantNoError(w.DB.Write(t.Context(), func(q *db.Q) error {
				return retention.RemovePipeline(q, &tasks.Due{Kind: pipelines.Removal, Key: large}, w.Clock.Now())
			}))
			removed := rows - w.rowsIn()
			if removed > 2_000 || batches > 50 {
				t.Fatalf("batch %d removed %d rows", batches, removed)
			}
			if removed == 0 {
				break
			}
		}
		w.WantNoError(w.RunDue(t.Context()))
		if after := w.counts(); !maps.Equal(before, after) {
			t.Errorf("there are rows in %v, want %v", after, before)
		}
	})
}

// A deleted pipeline is as if it did not exist, before anything of it is removed.
func TestPipelineRemoval_HidesItAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}")
		w.AddPipeline("other", nil, "{command: x}")
		w.Ada.Post(acme+"/rules", map[string]any{
			"type": "pipeline.trigger_build.pipeline", "value": map[string]any{"source_pipeline": "hello", "target_pipeline": "other"},
		}).Want(http.StatusCreated)
		build := w.Create(nil)
		running, waiting := w.Job(1, "a"), w.Job(1, "b")
		w.Start(running)
		badge := strings.TrimPrefix(w.Ada.Get(acme+"/pipelines/hello").String("badge_url"), w.URL)
		w.Ada.Get(badge).Want(http.StatusOK)
		w.Ada.Delete(acme + "/pipelines/hello").Want(http.StatusNoContent)

		for _, path := range []string{
			acme + "/pipelines/hello", hello, hello + "/1", hello + "/1/jobs", badge,
			acme + "/jobs/" + running, acme + "/jobs/" + running + "/log", acme + "/jobs/" + waiting + "/env",
		} {
			if got := w.Ada.Get(path); got.Status != http.StatusNotFound {
				t.Errorf("GET %s: status %d", path, got.Status)
			}
		}
		w.Ada.Delete(acme + "/pipelines/hello").Want(http.StatusNotFound)
		w.Ada.Put(acme+"/jobs/"+waiting+"/cancel", nil).Want(http.StatusNotFound)
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusNotFound)
		for _, list := range []string{"/builds", "/rules"} {
			if got := w.Ada.Get(acme + list).Want(http.StatusOK); string(got.Body) != "[]\n" {
				t.Errorf("GET %s: %s", list, got.Body)
			}
		}
		if got := string(w.Ada.Get(acme + "/pipelines").Want(http.StatusOK).Body); strings.Contains(got, `"hello"`) {
			t.Errorf("the list of pipelines has it: %s", got)
		}
		if err := w.Assign(waiting); err == nil {
			t.Error("its job can be assigned")
		}
		if err := w.Service.Finish(t.Context(), w.OrgID, running, buildstest.SomeAgent, flow.Exit{}, ""); err == nil {
			t.Error("its job can be finished")
		}

		// Its name and slug are free.
		w.AddPipeline("hello", nil, "{command: c, key: c}")
		servertest.WantEqual(t, "number", w.Create(nil).String("number"), "1")
		w.WantNoError(w.RunDue(t.Context()))
		w.WantStates(1, "scheduled", "c scheduled")
		var left int
		w.WantNoError(w.DB.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT COUNT(*) FROM jobs WHERE build_id = $1`, build.String("id")).Scan(&left)
		}))
		servertest.WantEqual(t, "jobs of the deleted pipeline", left, 0)
		w.Ada.Get(acme + "/pipelines/" + servertest.AcmePipelineID).Want(http.StatusNotFound)
	})
}
