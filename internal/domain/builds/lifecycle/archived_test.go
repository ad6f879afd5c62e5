package lifecycle_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestArchived_PipelinesAreReadOnly(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a}", "{block: Go, key: ask, depends_on: []}", "{command: b, key: b, depends_on: []}")
		w.create(nil)
		w.run(1, "a", 1)
		w.start(w.job(1, "b"))
		before := w.states(1)
		a, ask, b := w.job(1, "a"), w.job(1, "ask"), w.job(1, "b")
		w.ada.Post(acme+"/pipelines/hello/archive", nil).Want(http.StatusOK)
		refused := w.ada.Patch(acme+"/pipelines/hello", map[string]any{"description": "x"}).Want(http.StatusUnprocessableEntity).String("message")
		for _, got := range []*servertest.Response{
			w.ada.Put(acme+"/jobs/"+a+"/retry", nil),
			w.ada.Put(hello+"/1/jobs/"+a+"/retry", nil),
			w.ada.Put(hello+"/1/retry_failed_jobs", nil),
			w.ada.Put(acme+"/jobs/"+ask+"/unblock", nil),
			w.ada.Put(acme+"/jobs/"+b+"/reprioritize", map[string]any{"priority": 3}),
			w.ada.Delete(hello + "/1/jobs/" + a + "/log"),
		} {
			got.WantMessage(http.StatusUnprocessableEntity, refused)
		}
		wantEqual(t, "jobs", w.states(1), before)
		// What runs goes on, and can be stopped.
		w.end(b, 0)
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.ada.Post(acme+"/pipelines/hello/unarchive", nil).Want(http.StatusOK)
		w.ada.Delete(hello + "/1/jobs/" + a + "/log").Want(http.StatusNoContent)
	})
}
