package clusterrules_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

const (
	acme  = "/v2/organizations/acme"
	rules = acme + "/rules"
)

// A fixture is a server with the organization acme, as its administrator Ada sees it.
type fixture struct {
	*servertest.Server
	ada *servertest.Client
}

// each runs a test with a fresh fixture on each engine.
func each(t *testing.T, fn func(t *testing.T, w *fixture)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, &fixture{s, s.As(t, servertest.Ada)}) })
}

// pipeline creates a pipeline.
func (w *fixture) pipeline(slug string) {
	w.ada.Post(acme+"/pipelines", map[string]any{
		"name": slug, "slug": slug, "repository": "https://git.example.test/acme/" + slug + ".git",
		"cluster_id": servertest.AcmeClusterID, "configuration": "steps:\n  - command: x\n",
	}).Want(http.StatusCreated)
}

func rule(kind, source, target string) map[string]any {
	return map[string]any{"type": kind, "value": map[string]any{"source_pipeline": source, "target_pipeline": target}}
}

func TestRules_ShowEveryFieldUntilDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.pipeline("other")
		target := w.ada.Get(acme + "/pipelines/other").String("id")
		made := w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", servertest.AcmePipelineID, "other")).Want(http.StatusCreated)
		one := rules + "/" + made.String("uuid")
		servertest.WantAt(t, w.ada.Get(one).Want(http.StatusOK), map[string]any{
			"uuid": made.String("uuid"), "organization_uuid": w.OrganizationID(t, "acme"), "type": "pipeline.trigger_build.pipeline",
			"action": "trigger_build", "effect": "allow", "source_type": "pipeline", "source_uuid": servertest.AcmePipelineID,
			"target_type": "pipeline", "target_uuid": target, "url": w.URL + one, "created_at": w.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "created_by.name": "Ada",
		})
		servertest.WantEqual(t, "rules", w.ada.Get(rules).Len(""), 1)
		w.As(t, servertest.Bo).Delete(one).Want(http.StatusForbidden)
		w.ada.Delete(one).Want(http.StatusNoContent)
		w.ada.Get(one).WantMessage(http.StatusNotFound, "No rule found")
		servertest.WantEqual(t, "rules", w.ada.Get(rules).Len(""), 0)
	})
}

func TestRules_RefuseInvalidValues(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.pipeline("other")
		w.ada.Post(rules, rule("pipeline.delete.pipeline", "hello", "other")).WantFieldError("type", "must be one of")
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "none", servertest.AdaID)).
			WantFieldError("value.source_pipeline", "of this organization").WantFieldError("value.target_pipeline", "of this organization")
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "hello", "other")).Want(http.StatusCreated)
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "hello", "other")).WantMessage(http.StatusUnprocessableEntity, "This rule already exists")
		w.As(t, servertest.Bo).Post(rules, rule("pipeline.trigger_build.pipeline", "other", "hello")).Want(http.StatusForbidden)
		w.As(t, servertest.Cy).Post("/v2/organizations/rival/rules", rule("pipeline.trigger_build.pipeline", "hello", "other")).WantFieldError("value.source_pipeline", "of this organization")
	})
}
