package builds_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

const rules = acme + "/rules"

func rule(kind, source, target string) map[string]any {
	return map[string]any{"type": kind, "value": map[string]any{"source_pipeline": source, "target_pipeline": target}}
}

func TestRules_LetAPipelineTriggerOneOfAnotherCluster(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := w.ada.Post(acme+"/clusters", map[string]any{"name": "Other"}).Want(http.StatusCreated).String("id")
		w.pipeline("far", map[string]any{"cluster_id": other}, "command: x")
		w.steps("{trigger: far, key: call}")
		w.createAll(nil)
		w.wantStates(1, "failed", "call failed")
		wantAt(t, w.build(1), map[string]any{"jobs.0.detail": `The pipeline "far" is in another cluster, and no rule lets this pipeline trigger it`})
		w.ada.Post(rules, rule("pipeline.artifacts_read.pipeline", "hello", "far")).Want(http.StatusCreated)
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "far", "hello")).Want(http.StatusCreated)
		w.createAll(nil)
		w.wantStates(2, "failed", "call failed")
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "hello", "far")).Want(http.StatusCreated)
		w.createAll(nil)
		w.wantStates(3, "running", "call running")
	})
}

func TestRules_ShowEveryFieldUntilDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.pipeline("other", nil, "command: x")
		target := w.ada.Get(acme + "/pipelines/other").String("id")
		made := w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", servertest.AcmePipelineID, "other")).Want(http.StatusCreated)
		one := rules + "/" + made.String("uuid")
		wantAt(t, w.ada.Get(one).Want(http.StatusOK), map[string]any{
			"uuid": made.String("uuid"), "organization_uuid": w.orgID, "type": "pipeline.trigger_build.pipeline",
			"action": "trigger_build", "effect": "allow", "source_type": "pipeline", "source_uuid": servertest.AcmePipelineID,
			"target_type": "pipeline", "target_uuid": target, "url": w.URL + one, "created_at": w.now(), "created_by.name": "Ada",
		})
		wantEqual(t, "rules", w.ada.Get(rules).Len(""), 1)
		w.As(t, servertest.Bo).Delete(one).Want(http.StatusForbidden)
		w.ada.Delete(one).Want(http.StatusNoContent)
		w.ada.Get(one).WantMessage(http.StatusNotFound, "No rule found")
		wantEqual(t, "rules", w.ada.Get(rules).Len(""), 0)
	})
}

func TestRules_RefuseWhatIsWrong(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.pipeline("other", nil, "command: x")
		w.ada.Post(rules, rule("pipeline.delete.pipeline", "hello", "other")).WantFieldError("type", "must be one of")
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "none", servertest.AdaID)).
			WantFieldError("value.source_pipeline", "of this organization").WantFieldError("value.target_pipeline", "of this organization")
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "hello", "other")).Want(http.StatusCreated)
		w.ada.Post(rules, rule("pipeline.trigger_build.pipeline", "hello", "other")).WantMessage(http.StatusUnprocessableEntity, "This rule already exists")
		w.As(t, servertest.Bo).Post(rules, rule("pipeline.trigger_build.pipeline", "other", "hello")).Want(http.StatusForbidden)
		w.As(t, servertest.Cy).Post("/v2/organizations/rival/rules", rule("pipeline.trigger_build.pipeline", "hello", "other")).WantFieldError("value.source_pipeline", "of this organization")
	})
}
