package lifecycle_test

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
		other := w.Ada.Post(acme+"/clusters", map[string]any{"name": "Other"}).Want(http.StatusCreated).String("id")
		w.AddPipeline("far", map[string]any{"cluster_id": other}, "command: x")
		w.Steps("{trigger: far, key: call}")
		w.CreateAll(nil)
		w.WantStates(1, "failed", "call failed")
		servertest.WantAt(t, w.Build(1), map[string]any{"jobs.0.detail": `The pipeline "far" is in another cluster, and no rule lets this pipeline trigger it`})
		w.Ada.Post(rules, rule("pipeline.artifacts_read.pipeline", "hello", "far")).Want(http.StatusCreated)
		w.Ada.Post(rules, rule("pipeline.trigger_build.pipeline", "far", "hello")).Want(http.StatusCreated)
		w.CreateAll(nil)
		w.WantStates(2, "failed", "call failed")
		w.Ada.Post(rules, rule("pipeline.trigger_build.pipeline", "hello", "far")).Want(http.StatusCreated)
		w.CreateAll(nil)
		w.WantStates(3, "running", "call running")
	})
}
