package jobapi_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestUpload_AddsStepsAtOnce(t *testing.T) {
	whileRunning(t, []string{"{command: up, key: up}"}, func(t *testing.T, w *runningBuild) {
		id := core.NewID()
		body := fields{"uuid": id, "pipeline": fields{"env": fields{"A": "$HOME"}, "steps": []any{"wait", fields{"command": "echo $HOME ${X}", "key": "new", "label": "New"}}}}
		for range 2 {
			servertest.WantAt(t, w.Post(w.Path("/pipelines?async=true"), body).Want(http.StatusOK), fields{"uuid": id, "state": "applied"})
			servertest.WantAt(t, w.Get(w.Path("/pipelines/"+id)).Want(http.StatusOK), fields{"state": "applied"})
		}
		jobs := w.Ada.Get(servertest.HelloPath + "/builds/" + w.Build + "/jobs").Want(http.StatusOK)
		servertest.WantEqual(t, "jobs", jobs.Len("items"), 3)
		servertest.WantAt(t, jobs, fields{"items.2.command": "echo $HOME ${X}", "items.2.step_key": "new"})
		shown := w.Ada.Get(servertest.HelloPath + "/builds/" + w.Build + "/step-uploads/" + id).Want(http.StatusOK)
		if text := shown.String("definition_yaml"); !strings.Contains(text, "\n  \"steps\": [\n") {
			t.Errorf("the definition is kept as %s", text)
		}
	})
}

func TestUpload_ReplacesWhatHasNotStarted(t *testing.T) {
	whileRunning(t, []string{"{command: up, key: up}", "{command: old, key: old}"}, func(t *testing.T, w *runningBuild) {
		w.Post(w.Path("/pipelines?async=true"), fields{"uuid": core.NewID(), "replace": true, "pipeline": fields{"steps": []any{fields{"command": "new", "key": "old"}}}}).Want(http.StatusOK)
		jobs := w.Ada.Get(servertest.HelloPath + "/builds/" + w.Build + "/jobs").Want(http.StatusOK)
		states := map[string]string{}
		for i := range jobs.Len("items") {
			at := "items." + string(rune('0'+i))
			states[jobs.String(at+".command")] = jobs.String(at + ".state")
		}
		servertest.WantEqual(t, "up", states["up"], "running")
		servertest.WantEqual(t, "old", states["old"], "skipped")
		servertest.WantEqual(t, "new", states["new"], "waiting")
	})
}

func TestUpload_ReportsEverythingThatIsWrong(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		id := core.NewID()
		body := fields{"uuid": id, "pipeline": fields{"steps": []any{fields{"comand": "x"}, fields{"command": "x", "priority": "high"}}}}
		for range 2 {
			message := w.Post(w.Path("/pipelines?async=true"), body).Want(http.StatusUnprocessableEntity).String("message")
			for _, text := range []string{"line 4, column", "did you mean command", "line 8, column", "priority"} {
				if !strings.Contains(message, text) {
					t.Errorf("the message %q does not say %q", message, text)
				}
			}
		}
		status := w.Get(w.Path("/pipelines/" + id)).Want(http.StatusOK)
		servertest.WantAt(t, status, fields{"state": "rejected"})
		if !strings.Contains(status.String("message"), "did you mean command") {
			t.Errorf("got %s", status.Body)
		}
		servertest.WantEqual(t, "jobs", w.Show().Len("jobs"), 1)
	})
}

func TestUpload_ReportsProblemsWithTheRequest(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		steps := fields{"steps": []any{"wait"}}
		w.Post(w.Path("/pipelines"), fields{"uuid": core.NewID()}).WantMessage(http.StatusBadRequest, "pipeline is required")
		w.Post(w.Path("/pipelines"), fields{"uuid": "x", "pipeline": steps}).WantMessage(http.StatusUnprocessableEntity, "The id of an upload must be a UUID")
		w.Post(w.Path("/pipelines"), fields{"uuid": core.NewID(), "pipeline": "steps: []"}).Want(http.StatusUnprocessableEntity)
		w.Post(w.Path("/pipelines"), fields{"uuid": core.NewID(), "pipeline": fields{"steps": []any{fields{"command": strings.Repeat("x", 1<<20)}}}}).Want(http.StatusUnprocessableEntity)
		w.Post(w.Path("/pipelines"), `{"pipeline": {"steps": [{"command": "`+strings.Repeat("x", 5<<20)+`"}]}}`).Want(http.StatusRequestEntityTooLarge)
		w.Get(w.Path("/pipelines/"+core.NewID())).WantMessage(http.StatusNotFound, "No step upload found")
		w.Get(w.Path("/pipelines/x")).Want(http.StatusNotFound)
	})
}
