package testresults_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

// test returns the path of a test of the suite, below the suite.
func (w *world) test(name string) string {
	w.t.Helper()
	return "/tests/" + w.ada.Post(w.suite+"/tests/find", body{"name": name}).Want(http.StatusOK).String("id")
}

func TestLabels_AreAddedAndRemoved(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.upload(body{"key": "k", "commit_sha": "abc"}, "a passed", "a failed", "b passed", "c passed")
		patch := func(test string, operator string, labels ...string) *servertest.Response {
			return w.ada.Patch(w.suite+w.test(test)+"/labels", body{"operator": operator, "labels": labels})
		}
		want(t, patch("b", "add", "slow", " flaky ", "slow").Want(http.StatusOK), map[string]any{"name": "b", "labels.0": "flaky", "labels.1": "slow", "state": "enabled"})
		patch("a", "add", "slow").Want(http.StatusOK)
		for query, wanted := range map[string]string{
			"labels=slow": "a b", "labels=flaky": "a b", "labels=slow,!flaky": "", "labels=!slow": "c", "label=flaky&labels=!none": "a b",
		} {
			if got := names(w.get("/tests?" + query)); got != wanted {
				t.Errorf("%s: %q, want %q", query, got, wanted)
			}
		}
		if got := patch("a", "remove", "flaky", "unknown").Want(http.StatusOK); got.Len("labels") != 1 || got.String("labels.0") != "slow" {
			t.Errorf("without flaky: %s", got.Body)
		}
		if got := w.get("/flaky-tests"); got.Len("") != 0 {
			t.Errorf("a test that is not flaky any more is listed: %s", got.Body)
		}
		w.upload(body{"key": "l", "commit_sha": "def"}, "a passed", "a failed")
		want(t, w.get("/flaky-tests"), map[string]any{"0.name": "a", "0.labels.0": "flaky", "0.labels.1": "slow", "0.instances": 1})

		for field, b := range map[string]body{
			"operator": {"operator": "set", "labels": []string{"x"}},
			"labels":   {"operator": "add", "labels": []string{"a,b"}},
		} {
			w.ada.Patch(w.suite+w.test("a")+"/labels", b).WantFieldError(field, "must")
		}
		patch("a", "add").WantFieldError("labels", "1 to 50")
		patch("a", "add", strings.Repeat("x", 101)).WantFieldError("labels", "1 to 100 bytes")
		w.ada.Patch(w.suite+"/tests/"+core.NewID()+"/labels", body{"operator": "add", "labels": []string{"x"}}).WantMessage(http.StatusNotFound, "No test found")
	})
}

func TestStates_AreKeptForClients(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.build()
		w.upload(body{"key": build}, "a passed", "b failed", "c passed")
		put := func(test, action string) *servertest.Response { return w.ada.Put(w.suite+w.test(test)+action, nil) }
		want(t, put("a", "/mute").Want(http.StatusOK), map[string]any{"name": "a", "state": "muted"})
		want(t, put("b", "/skip").Want(http.StatusOK), map[string]any{"name": "b", "state": "skipped"})
		for path, wanted := range map[string]string{
			"/tests/muted": "a", "/tests/skipped": "b", "/tests?state=muted": "a", "/tests?state=enabled": "c", "/tests": "a b c",
		} {
			if got := names(w.get(path).Want(http.StatusOK)); got != wanted {
				t.Errorf("%s: %q, want %q", path, got, wanted)
			}
		}
		want(t, w.ada.Get(analytics+"/builds/"+build+"/tests?state=skipped"), map[string]any{"0.name": "b", "0.state": "skipped"})
		want(t, put("b", "/enable").Want(http.StatusOK), map[string]any{"state": "enabled"})
		if got := w.get("/tests/skipped"); got.Len("") != 0 {
			t.Errorf("skipped tests: %s", got.Body)
		}
		put("b", "/disable").Want(http.StatusNotFound)
		w.Clock.Advance(100 * 24 * time.Hour)
		w.runDue()
		w.ada = w.As(t, servertest.Ada)
		if got := names(w.get("/tests")); got != "a" {
			t.Errorf("after the results are removed: %q, want the muted test alone", got)
		}
		w.ada.Delete(w.suite).Want(http.StatusNoContent)
		w.runDue()
		if got := w.count(); got != "0 0 0 0 0 0 0 0 0" {
			t.Errorf("rows after the suite is removed: %s", got)
		}
	})
}

func TestTests_AreManagedByThoseWhoMayEditTheSuite(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.upload(body{"key": "k"}, "a passed")
		path := w.suite + w.test("a")
		w.Apply(`
organizations:
  - slug: acme
    features: {teams: true}
    teams: [{name: Backend, slug: backend, members: [bo@acme.test]}]
`)
		w.ada = w.As(t, servertest.Ada)
		bo := w.As(t, servertest.Bo)
		bo.Put(path+"/mute", nil).Want(http.StatusNotFound)
		w.ada.Post("/v2/organizations/acme/teams/backend/suites", body{"suite_id": w.id, "access_level": []string{"read"}}).Want(http.StatusCreated)
		for _, resp := range []*servertest.Response{
			bo.Put(path+"/mute", nil), bo.Put(path+"/skip", nil), bo.Put(path+"/enable", nil),
			bo.Patch(path+"/labels", body{"operator": "add", "labels": []string{"x"}}),
		} {
			resp.Want(http.StatusForbidden)
		}
		bo.Get(w.suite + "/tests/muted").Want(http.StatusOK)
	})
}

func TestTags_AreShownWithExecutions(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.uploader().Post("/v1/uploads", body{"run_env": body{"key": "k"}, "tags": body{"os": "linux"}, "data": []body{
			{"name": "a", "result": "failed", "tags": body{"browser": "firefox"}}, {"name": "b", "result": "passed"},
		}}).Want(http.StatusAccepted)
		want(t, w.get(w.test("a")+"/executions"), map[string]any{"0.tags.os": "linux", "0.tags.browser": "firefox"})
		want(t, w.get(w.test("b")+"/executions"), map[string]any{"0.tags.os": "linux"})
		run := w.get("/runs").String("0.id")
		want(t, w.get("/runs/"+run+"/failed_executions"), map[string]any{"0.tags.browser": "firefox"})
	})
}
