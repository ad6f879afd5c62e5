package builds_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
)

// env returns the environment of the newest attempt of a job of a build of hello.
func (w *world) env(number int, name string) map[string]string {
	w.T.Helper()
	var view struct{ Env map[string]string }
	w.Ada.Get(acme + "/jobs/" + w.Job(number, name) + "/env").Want(http.StatusOK).JSON(&view)
	return view.Env
}

// Scripts under "set -u" end at the first variable that is not there.
func TestEnv_HasTheVariablesThatScriptsExpect(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b, timeout_in_minutes: 5}")
		w.Create(map[string]any{"env": map[string]string{"SERVICE_PULL_REQUEST_REPO": "mine", "BUILDKITE_REBUILT_FROM_BUILD_ID": "mine"}})
		env := w.env(1, "a")
		for name, want := range map[string]string{
			"SERVICE_TAG": "", "SERVICE_TIMEOUT": "false", "SERVICE_RETRY_COUNT": "0", "SERVICE_STEP_KEY": "a", "SERVICE_ARTIFACT_PATHS": "",
			"SERVICE_PULL_REQUEST": "false", "SERVICE_PULL_REQUEST_BASE_BRANCH": "", "SERVICE_PULL_REQUEST_REPO": "mine",
			"SERVICE_PULL_REQUEST_LABELS": "", "SERVICE_PULL_REQUEST_DRAFT": "false", "SERVICE_BUILD_AUTHOR": "Ada", "SERVICE_BUILD_CREATOR": "Ada",
			"SERVICE_TRIGGERED_FROM_BUILD_ID": "", "SERVICE_TRIGGERED_FROM_BUILD_NUMBER": "", "SERVICE_TRIGGERED_FROM_BUILD_PIPELINE_SLUG": "",
			"SERVICE_REBUILT_FROM_BUILD_NUMBER": "", "BUILDKITE_REBUILT_FROM_BUILD_ID": "mine",
		} {
			if got, ok := env[name]; !ok || got != want {
				t.Errorf("%s is %q (%t), want %q", name, got, ok, want)
			}
		}
		if value, ok := env["SERVICE_REBUILT_FROM_BUILD_ID"]; ok {
			t.Errorf("a variable of the build's is overridden with %q", value)
		}
		servertest.WantEqual(t, "timeout", w.env(1, "b")["SERVICE_TIMEOUT"], "5")
	})
}

func TestEnv_HasTheImage(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, "image: golang:1.25\nsteps:\n  - {command: a, key: a}\n  - {command: b, key: b, image: \"node:24\"}\n")
		w.Create(nil)
		servertest.WantEqual(t, "the pipeline's", w.env(1, "a")["SERVICE_IMAGE"], "golang:1.25")
		servertest.WantEqual(t, "the step's", w.env(1, "b")["SERVICE_IMAGE"], "node:24")
		w.Steps("{command: a, key: a}")
		w.Create(nil)
		if image, ok := w.env(2, "a")["SERVICE_IMAGE"]; ok {
			t.Errorf("a step without an image has %q", image)
		}
	})
}

func TestJobs_OfAParallelStepHaveTheirNumberInTheLabel(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: a, key: a, label: "Test %n, %N of %t (100%)", parallelism: 2}`, `{command: b, key: b, label: "%n of %t"}`)
		created := w.Create(nil)
		servertest.WantAt(t, created, map[string]any{"jobs.0.name": "Test 0, 1 of 2 (100%)", "jobs.1.name": "Test 1, 2 of 2 (100%)", "jobs.2.name": "%n of %t"})
		servertest.WantEqual(t, "SERVICE_LABEL", w.env(1, "a")["SERVICE_LABEL"], "Test 1, 2 of 2 (100%)")
	})
}
