package buildapi_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestCreate_BuildsVisualPipelines(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Ada.Post(acme+"/pipelines", map[string]any{
			"name": "Visual", "repository": "https://git.example.test/acme/visual.git", "cluster_id": servertest.AcmeClusterID, "env": map[string]any{"STAGE": "test", "A": "pipeline"},
			"steps": []any{
				map[string]any{"type": "script", "name": "Unit", "command": "make", "artifact_paths": "bin/*", "branch_configuration": "main", "env": map[string]any{"A": "step"}, "timeout_in_minutes": 5, "agent_query_rules": []string{"queue=default"}, "plugins": map[string]any{"docker#v5": map[string]any{"image": "go"}}},
				map[string]any{"type": "waiter"},
				map[string]any{"type": "manual", "label": "Release?"},
				map[string]any{"type": "trigger", "label": "Child", "trigger_project_slug": "hello", "trigger_commit": "HEAD", "trigger_branch": "main", "trigger_async": true},
			},
		}).Want(http.StatusCreated)
		path := acme + "/pipelines/visual/builds"
		created := w.Ada.Post(path, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		servertest.WantAt(t, created, map[string]any{
			"state": "scheduled", "jobs.0.name": "Unit", "jobs.0.command": "make", "jobs.0.artifact_paths": "bin/*", "jobs.0.agent_query_rules": []any{"queue=default"}, "jobs.0.state": "scheduled",
			"jobs.1.type": "waiter", "jobs.2.type": "manual", "jobs.2.label": "Release?", "jobs.3.type": "trigger", "jobs.3.async": true, "jobs.3.state": "waiting",
		})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+created.String("jobs.0.id")+"/env"), map[string]any{"env.STAGE": "test", "env.A": "step", "env.SERVICE_TIMEOUT": "5", "env.SERVICE_PLUGINS": `[{"github.com/buildkite-plugins/docker-buildkite-plugin#v5":{"image":"go"}}]`})
		other := w.Ada.Post(path, map[string]any{"commit": "HEAD", "branch": "other"}).Want(http.StatusCreated)
		servertest.WantAt(t, other, map[string]any{"jobs.0.state": "broken", "jobs.0.broken_reason": "branch_mismatch", "jobs.2.state": "blocked", "state": "passed", "blocked": true})
		w.Ada.Put(acme+"/jobs/"+other.String("jobs.2.id")+"/unblock", nil).Want(http.StatusOK)
		w.Follow()
		servertest.WantEqual(t, "the build", w.Ada.Get(path+"/2").String("state"), "passed")
		servertest.WantEqual(t, "the triggered build", w.Ada.Get(hello+"/1").Want(http.StatusOK).String("triggered_from.build_pipeline_slug"), "visual")
	})
}

func TestCreate_BuildsPipelinesOfTemplates(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		template := w.Ada.Post(acme+"/pipeline-templates", map[string]any{"name": "Go", "configuration": "steps:\n  - command: go test\n", "available": true}).Want(http.StatusCreated).String("uuid")
		w.Ada.Post(acme+"/pipelines", map[string]any{
			"name": "Templated", "repository": "https://git.example.test/acme/templated.git", "cluster_id": servertest.AcmeClusterID, "pipeline_template_uuid": template,
		}).Want(http.StatusCreated)
		path := acme + "/pipelines/templated/builds"
		created := w.Ada.Post(path, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		servertest.WantEqual(t, "command", created.String("jobs.0.command"), "go test")
		w.Ada.Patch(acme+"/pipeline-templates/"+template, map[string]any{"configuration": "steps:\n  - command: go vet\n"}).Want(http.StatusOK)
		changed := w.Ada.Post(path, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		servertest.WantEqual(t, "command of the changed template", changed.String("jobs.0.command"), "go vet")
		servertest.WantEqual(t, "command of the older build", w.Ada.Get(path+"/1").String("jobs.0.command"), "go test")
	})
}
