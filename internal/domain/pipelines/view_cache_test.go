package pipelines_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// Responses are cached on SQLite, and a response always shows the latest change.
func TestGet_ShowsEveryChangeAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		get := func() *servertest.Response { return ada.Get(hello).Want(http.StatusOK) }
		get()
		counter := dbtest.CountStatements(s.DB)
		first := get()
		if asked := counter.Take().Of("FROM pipelines p"); (asked == 0) != (s.DB.Engine() == db.SQLite) {
			t.Errorf("%d statements for a pipeline that was read before", asked)
		}
		wantEqual(t, "unfinished builds", first.At("scheduled_builds_count"), 0.0)

		ada.Post(hello+"/builds", map[string]any{"commit": "0123456789012345678901234567890123456789", "branch": "main"}).Want(http.StatusCreated)
		wantEqual(t, "unfinished builds after one was created", get().At("scheduled_builds_count"), 1.0)
		ada.Put(hello+"/builds/1/cancel", nil).Want(http.StatusOK)
		wantEqual(t, "unfinished builds after it was canceled", get().At("scheduled_builds_count"), 0.0)

		ada.Patch(hello, map[string]any{"description": "changed"}).Want(http.StatusOK)
		wantEqual(t, "description", get().At("description"), "changed")
		ada.Post(hello+"/archive", nil).Want(http.StatusOK)
		if get().At("archived_at") == nil {
			t.Error("archived_at is null after the pipeline was archived")
		}
		ada.Post(hello+"/unarchive", nil).Want(http.StatusOK)

		template := ada.Post("/v2/organizations/acme/pipeline-templates", map[string]any{"name": "One", "configuration": "steps: [{command: one}]", "available": true}).Want(http.StatusCreated).String("uuid")
		ada.Patch(hello, map[string]any{"pipeline_template_uuid": template}).Want(http.StatusOK)
		wantEqual(t, "configuration", get().At("configuration"), "steps: [{command: one}]")
		ada.Patch("/v2/organizations/acme/pipeline-templates/"+template, map[string]any{"configuration": "steps: [{command: two}]"}).Want(http.StatusOK)
		wantEqual(t, "configuration after the template was changed", get().At("configuration"), "steps: [{command: two}]")

		ada.Delete(hello).Want(http.StatusNoContent)
		ada.Get(hello).Want(http.StatusNotFound)
	})
}
