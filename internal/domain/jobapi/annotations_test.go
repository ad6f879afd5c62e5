package jobapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

// annotations lists the annotations of the build and its jobs over the REST API.
func (w *runningBuild) annotations() *servertest.Response {
	w.T.Helper()
	return w.Ada.Get(servertest.HelloPath + "/builds/" + w.Build + "/annotations?scope=all").Want(http.StatusOK)
}

func TestAnnotations_AreMadeByJobs(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		post := func(body fields) {
			t.Helper()
			w.Post(w.Path("/annotations"), body).Want(http.StatusOK)
		}
		post(fields{"body": "one", "priority": 3, "scope": "build"})
		post(fields{"body": " two", "append": true, "style": "info", "priority": 3, "scope": "build"})
		servertest.WantAt(t, w.annotations(), fields{"0.context": "default", "0.scope": "build", "0.job_id": nil, "0.style": "info", "0.priority": 3, "0.body_html": "<p>one two</p>\n"})
		post(fields{"style": "error", "context": "default"})
		servertest.WantAt(t, w.annotations(), fields{"0.style": "error", "0.body_html": "<p>one two</p>\n"})
		post(fields{"body": "three"})
		servertest.WantAt(t, w.annotations(), fields{"0.style": "error", "0.body_html": "<p>three</p>\n"})
		post(fields{"body": "mine", "scope": "job", "priority": 9})
		servertest.WantAt(t, w.annotations(), fields{"0.context": "default", "0.scope": "job", "0.job_id": w.Job.ID, "0.priority": 9, "1.scope": "build"})
	})
}

func TestAnnotations_AreRemovedByContext(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		contexts := []string{"ctx.1", "a/b", "..", "with space", "ümläut?&#", "default"}
		for _, context := range contexts {
			w.Post(w.Path("/annotations"), fields{"body": "x", "context": context}).Want(http.StatusOK)
		}
		w.Post(w.Path("/annotations"), fields{"body": "x", "context": "ctx.1", "scope": "job"}).Want(http.StatusOK)
		for i, context := range contexts {
			escaped := strings.ReplaceAll(url.PathEscape(context), ".", "%2E")
			for range 2 {
				w.Delete(w.Path("/annotations/" + escaped + "?scope=build")).Want(http.StatusOK)
			}
			servertest.WantEqual(t, "left after "+context, w.annotations().Len(""), len(contexts)-i)
		}
		servertest.WantAt(t, w.annotations(), fields{"0.scope": "job"})
		w.Delete(w.Path("/annotations/ctx%2E1?scope=job")).Want(http.StatusOK)
		servertest.WantEqual(t, "left", w.annotations().Len(""), 0)
	})
}

func TestAnnotations_ReportProblems(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		for _, c := range []struct {
			body fields
			text string
		}{
			{fields{"style": "info"}, `There is no annotation with the context "default" to change; give it a body`},
			{fields{"body": "x", "style": "loud"}, "Validation Failed: style must be one of success, info, warning, error"},
			{fields{"body": "x", "priority": 11}, "Validation Failed: priority must be an integer from 1 to 10"},
			{fields{"body": "x", "scope": "world"}, `The scope of an annotation is build or job, not "world"`},
			{fields{"body": strings.Repeat("x", 1<<20+1)}, "Validation Failed: body must have at most 1048576 bytes, not 1048577"},
		} {
			w.Post(w.Path("/annotations"), c.body).WantMessage(http.StatusUnprocessableEntity, c.text)
		}
		w.Delete(w.Path("/annotations/default?scope=world")).Want(http.StatusUnprocessableEntity)
	})
}
