package buildapi_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestArchived_PipelinesAreReadOnly(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{block: Go, key: ask, depends_on: []}", "{command: b, key: b, depends_on: []}")
		w.Create(nil)
		w.Run(1, "a", 1)
		w.Start(w.Job(1, "b"))
		before := w.States(1)
		a, ask, b := w.Job(1, "a"), w.Job(1, "ask"), w.Job(1, "b")
		w.Ada.Post(acme+"/pipelines/hello/archive", nil).Want(http.StatusOK)
		refused := w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"description": "x"}).Want(http.StatusUnprocessableEntity).String("message")
		for _, got := range []*servertest.Response{
			w.Ada.Put(acme+"/jobs/"+a+"/retry", nil),
			w.Ada.Put(hello+"/1/jobs/"+a+"/retry", nil),
			w.Ada.Put(hello+"/1/retry_failed_jobs", nil),
			w.Ada.Put(acme+"/jobs/"+ask+"/unblock", nil),
			w.Ada.Put(acme+"/jobs/"+b+"/reprioritize", map[string]any{"priority": 3}),
			w.Ada.Delete(hello + "/1/jobs/" + a + "/log"),
		} {
			got.WantMessage(http.StatusUnprocessableEntity, refused)
		}
		servertest.WantEqual(t, "jobs", w.States(1), before)
		// What runs goes on, and can be stopped.
		w.End(b, 0)
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.Ada.Post(acme+"/pipelines/hello/unarchive", nil).Want(http.StatusOK)
		w.Ada.Delete(hello + "/1/jobs/" + a + "/log").Want(http.StatusNoContent)
	})
}
