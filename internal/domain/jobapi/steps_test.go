package jobapi_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestSteps_AreReadAndChangedByJobs(t *testing.T) {
	whileRunning(t, []string{"{command: a, key: first, label: First}", "{command: b, key: second.2, label: Second}"}, func(t *testing.T, w *runningBuild) {
		export := func(step string, body fields) string {
			t.Helper()
			body["build_id"] = w.Build
			return w.Post("/v3/steps/"+step+"/export", body).Want(http.StatusOK).String("output")
		}
		servertest.WantEqual(t, "label", export("second%2E2", fields{"attribute": "label"}), "Second")
		servertest.WantEqual(t, "label as JSON", export("first", fields{"attribute": "label", "format": "json"}), `"First"`)
		servertest.WantEqual(t, "state", export("first", fields{"attribute": "state"}), "running")
		servertest.WantEqual(t, "outcome", export("first", fields{"attribute": "outcome"}), "neutral")
		id := w.Show().String("jobs.0.step.id")
		servertest.WantEqual(t, "by id, without a build", w.Post("/v3/steps/"+id+"/export", fields{"attribute": "key"}).String("output"), "first")

		again := fields{"idempotency_uuid": core.NewID(), "build_id": w.Build, "attribute": "label", "value": "!", "append": true}
		for range 2 {
			w.Put("/v3/steps/first", again).Want(http.StatusOK)
		}
		w.Put("/v3/steps/"+id, fields{"idempotency_uuid": core.NewID(), "attribute": "label", "value": "?", "append": true}).Want(http.StatusOK)
		servertest.WantAt(t, w.Show(), fields{"jobs.0.name": "First!?"})
	})
}

func TestSteps_AreCanceledByJobs(t *testing.T) {
	whileRunning(t, []string{"{command: a, key: first}", "{command: b, key: second}"}, func(t *testing.T, w *runningBuild) {
		id := w.Show().String("jobs.1.step.id")
		for range 2 {
			servertest.WantAt(t, w.Post("/v3/steps/second/cancel", fields{"build_id": w.Build, "force": false, "force_grace_period": 10}).Want(http.StatusOK), fields{"uuid": id})
		}
		servertest.WantAt(t, w.Show(), fields{"jobs.0.state": "running", "jobs.1.state": "canceled"})
		w.Post("/v3/steps/second/cancel", fields{"build_id": w.Build, "force": true, "force_grace_period": -1}).Want(http.StatusUnprocessableEntity)
	})
}

func TestSteps_ReportProblems(t *testing.T) {
	whileRunning(t, []string{"{command: a, key: first}"}, func(t *testing.T, w *runningBuild) {
		other, _ := w.CreateBuild()
		for _, call := range []func(step string, body fields) *response{
			func(step string, body fields) *response { return w.Post("/v3/steps/"+step+"/export", body) },
			func(step string, body fields) *response { return w.Put("/v3/steps/"+step, body) },
			func(step string, body fields) *response { return w.Post("/v3/steps/"+step+"/cancel", body) },
		} {
			body := fields{"idempotency_uuid": core.NewID(), "attribute": "label"}
			call("none", body).WantMessage(http.StatusNotFound, "No step found")
			call(core.NewID(), body).Want(http.StatusNotFound)
			body["build_id"] = other
			call("first", body).WantMessage(http.StatusForbidden, "This token is for a job of another build")
			body["build_id"] = "x"
			call("first", body).Want(http.StatusForbidden)
		}
		w.Post("/v3/steps/first/export", fields{"attribute": "color"}).Want(http.StatusUnprocessableEntity)
		w.Post("/v3/steps/first/export", fields{"attribute": "label", "format": "xml"}).Want(http.StatusUnprocessableEntity)
		w.Put("/v3/steps/first", fields{"attribute": "label"}).Want(http.StatusUnprocessableEntity)
	})
}

func TestBuildCancel_EndsTheJobsBuild(t *testing.T) {
	whileRunning(t, []string{"{command: a, key: first}", "{command: b, key: second}"}, func(t *testing.T, w *runningBuild) {
		for range 2 {
			servertest.WantAt(t, w.Post("/v3/builds/"+w.Build+"/cancel", nil).Want(http.StatusOK), fields{"uuid": w.Build})
		}
		servertest.WantAt(t, w.Show(), fields{"state": "canceling", "jobs.0.state": "canceling", "jobs.1.state": "canceled"})
	})
}
