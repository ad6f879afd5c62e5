package testresults_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

func TestRuns_ListTheirFailedExecutions(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		resp := w.upload(body{"key": "k", "branch": "main", "commit_sha": "abc"}, "Cart/a passed", "Cart/b failed", "Cart/c failed")
		run := resp.String("run_id")
		path := "/runs/" + run + "/failed_executions"
		list := w.get(path).Want(http.StatusOK)
		test := list.String("0.test_id")
		want(t, list, map[string]any{
			"0.run_id": run, "0.run_name": "k", "0.commit_sha": "abc", "0.branch": "main", "0.failure_reason": "want b", "0.duration": 0.5,
			"0.location": "b.rb:1", "0.test_name": "Cart b", "1.test_name": "Cart c", "0.run_url": resp.String("run_url"),
			"0.test_url":           w.URL + "/organizations/acme/analytics/suites/unit/tests/" + test,
			"0.test_execution_url": w.URL + "/organizations/acme/analytics/suites/unit/tests/" + test + "?execution_id=" + list.String("0.execution_id"),
		})
		if list.Len("") != 2 || list.Has("0.failure_expanded") {
			t.Errorf("the failed executions are %s", list.Body)
		}
		want(t, w.get(path+"?include_failure_expanded=true"), map[string]any{"0.failure_expanded.0.expanded.0": "got", "0.failure_expanded.0.backtrace.0": "line 1"})
		if page := w.get(path + "?per_page=1&page=2"); page.Len("") != 1 || page.String("0.test_name") != "Cart c" {
			t.Errorf("page 2 is %s", page.Body)
		}
		w.get(path + "?include_failure_expanded=x").Want(http.StatusBadRequest)
		w.get("/runs/"+core.NewID()+"/failed_executions").WantMessage(http.StatusNotFound, "No run found")
		w.get("/runs/x").Want(http.StatusNotFound)
		other := newWorld(t, w.Server, "Other")
		other.get("/runs/"+run).WantMessage(http.StatusNotFound, "No run found")
	})
}

func TestTests_ShowWhatHappenedToThem(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.upload(body{"key": "1"}, "Cart/a passed", "Cart/b failed", "Auth/z passed")
		w.Clock.Advance(24 * time.Hour)
		w.upload(body{"key": "2"}, "Cart/a failed", "Cart/b skipped")
		list := w.get("/tests").Want(http.StatusOK)
		if got := names(list); got != "z a b" {
			t.Errorf("the tests are %s", got)
		}
		want(t, list, map[string]any{
			"1.scope": "Cart", "1.location": "a.rb:1", "1.file_name": "a.rb", "1.labels": []any{}, "1.reliability": 0.5, "1.duration_avg": 0.5, "1.duration_sum": 1,
			"1.duration_min": 0.5, "1.duration_max": 0.5, "1.executions_count": 2, "1.executions_count_by_result.passed": 1, "2.reliability": 0, "2.executions_count_by_result.skipped": 1,
		})
		id := list.String("1.id")
		want(t, list, map[string]any{"1.url": w.URL + w.suite + "/tests/" + id, "1.web_url": w.URL + "/organizations/acme/analytics/suites/unit/tests/" + id})
		want(t, w.get("/tests?period=1day"), map[string]any{"1.executions_count": 1, "0.executions_count": 0, "0.reliability": nil})
		if got := names(w.get("/tests?search=Auth")); got != "z" {
			t.Errorf("a search finds %s", got)
		}
		if got := names(w.get("/tests?sort_by=duration_sum&order=asc")); !strings.HasPrefix(got, "z") {
			t.Errorf("sorted by duration: %s", got)
		}
		if got := names(w.get("/tests?sort_by=reliability")); got != "z a b" {
			t.Errorf("sorted by reliability: %s", got)
		}
		if page := w.get("/tests?per_page=2&page=2"); names(page) != "b" {
			t.Errorf("page 2 is %s", page.Body)
		}
		for _, query := range []string{"period=x", "sort_by=x", "order=x", "state=x", "search=" + strings.Repeat("x", 2000)} {
			w.get("/tests?" + query).Want(http.StatusBadRequest)
		}
		if muted := w.get("/tests?state=muted"); muted.Len("") != 0 {
			t.Errorf("muted tests: %s", muted.Body)
		}
		w.ada.With("Buildkite-Version", "2026-08-01").Get(w.suite + "/tests").Want(http.StatusOK)
		w.ada.With("Buildkite-Version", "soon").Get(w.suite+"/tests").WantMessage(http.StatusBadRequest, "Buildkite-Version must be in format YYYY-MM-DD")

		one := w.get("/tests/" + id).Want(http.StatusOK)
		want(t, one, map[string]any{"name": "a", "executions_count": 2, "trend.0.executions_count_by_result.passed": 1, "trend.1.executions_count_by_result.failed": 1, "trend.1.date": w.Clock.Now().Format(time.DateOnly)})
		found := w.ada.Post(w.suite+"/tests/find", body{"scope": "Cart", "name": "a"}).Want(http.StatusOK)
		want(t, found, map[string]any{"id": id, "name": "a", "scope": "Cart"})
		w.ada.Post(w.suite+"/tests/find", body{"scope": "Cart", "name": "nothing"}).WantMessage(http.StatusNotFound, "No test found")
		w.ada.Post(w.suite+"/tests/find", body{"scope": "Cart"}).WantFieldError("name", "is required")
		w.get("/tests/"+core.NewID()).WantMessage(http.StatusNotFound, "No test found")
		executions := w.get("/tests/" + id + "/executions").Want(http.StatusOK)
		want(t, executions, map[string]any{"0.status": "failed", "0.failure_reason": "want a", "1.status": "passed"})
		if page := w.get("/tests/" + id + "/executions?per_page=1&page=2"); page.Len("") != 1 || page.String("0.status") != "passed" {
			t.Errorf("page 2 is %s", page.Body)
		}
	})
}

func TestFlaky_IsATestThatPassedAndFailedOnOneCommit(t *testing.T) {
	run := func(key, branch, commit string) body {
		return body{"key": key, "branch": branch, "commit_sha": commit}
	}
	each(t, func(t *testing.T, w *world) {
		flaky := func() string { t.Helper(); return names(w.get("/flaky-tests").Want(http.StatusOK)) }
		w.upload(run("1", "main", "abc"), "a passed", "b failed", "steady passed", "broken failed")
		if got := flaky(); got != "" {
			t.Errorf("flaky after one run: %s", got)
		}
		w.upload(run("2", "main", "def"), "a failed", "b passed", "steady passed", "broken failed")
		if got := flaky(); got != "" {
			t.Errorf("flaky after runs of two commits: %s", got)
		}
		w.Clock.Advance(time.Minute)
		w.upload(run("3", "main", "abc"), "a failed") // passed in run 1
		w.Clock.Advance(time.Minute)
		w.upload(run("4", "fix", "abc"), "b passed") // failed in run 1
		w.Clock.Advance(time.Minute)
		w.upload(run("5", "main", "123"), "retried failed", "retried passed", "steady skipped")
		if got := flaky(); got != "retried b a" {
			t.Errorf("flaky: %q, want retried, b and a, the latest first", got)
		}
		w.Clock.Advance(time.Minute)
		w.upload(run("6", "main", "abc"), "a passed") // known
		w.upload(run("7", "main", "def"), "a passed") // failed in run 2
		list := w.get("/flaky-tests")
		want(t, list, map[string]any{
			"0.name": "a", "0.instances": 2, "0.labels.0": "flaky", "0.last_resolved_at": nil, "0.ownership_team_ids": []any{},
			"0.executions_count_by_result.passed": 3, "0.executions_count_by_result.failed": 2, "0.reliability": 0.6,
			"0.trend.0.instances": 2, "0.trend.0.date": w.Clock.Now().Format(time.DateOnly), "1.instances": 1,
		})
		if list.String("0.latest_occurrence_at") != list.String("0.most_recent_instance_at") {
			t.Errorf("%s", list.Body)
		}
		for query, wanted := range map[string]string{"search=retr": "retried", "branch=fix": "b", "branch=none": "", "period=1hour": "a retried b"} {
			if got := names(w.get("/flaky-tests?" + query)); got != wanted {
				t.Errorf("%s: %q, want %q", query, got, wanted)
			}
		}
		w.get("/flaky-tests?period=x").Want(http.StatusBadRequest)
		if got := names(w.get("/tests?label=flaky")); got != "a b retried" {
			t.Errorf("tests labeled flaky: %s", got)
		}
		if got := names(w.get("/tests?labels=!flaky")); got != "broken steady" {
			t.Errorf("tests not labeled flaky: %s", got)
		}
		if got := names(w.get("/tests?labels=slow")); got != "" {
			t.Errorf("tests with an unknown label: %s", got)
		}
		w.Clock.Advance(2 * time.Hour)
		if got := names(w.get("/flaky-tests?period=1hour")); got != "" {
			t.Errorf("flaky within the last hour: %s", got)
		}
	})
}

func TestBuilds_ListTheirTests(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.build()
		path := analytics + "/builds/" + build
		if list := w.ada.Get(path + "/tests").Want(http.StatusOK); list.Len("") != 0 {
			t.Errorf("a build without runs has tests: %s", list.Body)
		}
		other := newWorld(t, w.Server, "Other")
		w.upload(body{"key": build, "commit_sha": "abc"}, "Cart/a passed", "Cart/b failed", "Cart/b passed", "Cart/c failed", "d skipped")
		other.upload(body{"key": build}, "e passed")
		w.upload(body{"key": w.build(), "commit_sha": "abc"}, "x passed")
		list := w.ada.Get(path + "/tests?sort_by=duration_sum").Want(http.StatusOK)
		if list.Len("") != 5 {
			t.Fatalf("the tests of the build are %s", list.Body)
		}
		want(t, list, map[string]any{
			"0.name": "b", "0.scope": "Cart", "0.state": "enabled", "0.executions_count": 2, "0.executions_count_by_result.passed": 1, "0.executions_count_by_result.failed": 1,
			"0.reliability": 0.5, "0.duration_sum": 1, "0.labels.0.name": "flaky", "0.location": "b.rb:1",
		})
		want(t, w.ada.With("Buildkite-Version", "2026-08-01").Get(path+"/tests?sort_by=duration_sum"), map[string]any{"0.labels.0": "flaky"})
		for query, wanted := range map[string]string{
			"result=failed": "b c", "result=^failed": "c", "result=^passed": "a e", "result=passed": "a b e", "labels=flaky": "b", "labels=!flaky&result=failed": "c", "state=muted": "", "state=enabled&result=^failed": "c",
		} {
			got := strings.Fields(names(w.ada.Get(path + "/tests?" + query).Want(http.StatusOK)))
			for _, name := range strings.Fields(wanted) {
				if !strings.Contains(strings.Join(got, " "), name) {
					t.Errorf("%s: %q, want %q", query, got, wanted)
				}
			}
			if len(got) != len(strings.Fields(wanted)) {
				t.Errorf("%s: %q, want %q", query, got, wanted)
			}
		}
		want(t, w.ada.Get(path+"/tests?result=^failed&include=latest_fail"), map[string]any{"0.latest_fail.failure_reason": "want c", "0.latest_fail.failure_expanded.0.expanded.0": "got", "0.latest_fail.duration": 0.5})
		executions := w.ada.Get(path + "/tests?labels=flaky&include=executions")
		want(t, executions, map[string]any{"0.executions.0.status": "passed", "0.executions.1.status": "failed", "0.executions.1.location": "b.rb:1"})
		for _, query := range []string{"result=x", "include=x", "sort_by=x", "order=x", "page=0"} {
			w.ada.Get(path + "/tests?" + query).Want(http.StatusBadRequest)
		}
		if page := w.ada.Get(path + "/tests?per_page=2&page=3"); page.Len("") != 1 {
			t.Errorf("page 3 is %s", page.Body)
		}

		shown := w.ada.Get("/v2/organizations/acme/pipelines/hello/builds/" + build + "?include_test_engine=true").Want(http.StatusOK)
		want(t, shown, map[string]any{"test_engine.runs.0.suite.slug": "unit", "test_engine.runs.0.suite.id": w.id, "test_engine.runs.1.suite.slug": "other"})

		summary := w.ada.Get(path + "/preflight/v1?include=latest_fail").Want(http.StatusOK)
		run := w.get("/runs?build_id=" + build).String("0.id")
		want(t, summary, map[string]any{
			"tests.runs." + run + ".suite.slug": "unit", "tests.runs." + run + ".passed": 2, "tests.runs." + run + ".failed": 2, "tests.runs." + run + ".skipped": 1,
			"tests.failures.0.run_id": run, "tests.failures.0.suite_slug": "unit", "tests.failures.0.suite_name": "Unit",
		})
		if summary.Len("tests.failures") != 2 || !summary.Has("tests.failures.0.latest_fail.failure_reason") {
			t.Errorf("the failures are %s", summary.Body)
		}
		if only := w.ada.Get(path + "/preflight/v1?result=^failed"); only.Len("tests.failures") != 1 || only.String("tests.failures.0.name") != "Cart c" || only.String("tests.failures.0.failure_reason") != "want c" {
			t.Errorf("the tests that only failed are %s", only.Body)
		}
		w.ada.Get(analytics+"/builds/"+core.NewID()+"/tests").WantMessage(http.StatusNotFound, "No build found")
		w.ada.Get(analytics+"/builds/1/tests").WantMessage(http.StatusNotFound, "No build found")
		w.As(t, servertest.Cy).Get("/v2/analytics/organizations/rival/builds/"+build+"/tests").WantMessage(http.StatusNotFound, "No build found")
	})
}

func TestBuilds_ShowSuitesThatTheCallerCanSee(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.build()
		w.upload(body{"key": build}, "a failed")
		w.Apply(`
organizations:
  - slug: acme
    features: {teams: true}
    teams: [{name: Backend, slug: backend, members: [bo@acme.test]}]
`)
		bo, path := w.As(t, servertest.Bo), analytics+"/builds/"+build
		bo.Get(path+"/tests").WantMessage(http.StatusNotFound, "No build found")
		w.ada.Post("/v2/organizations/acme/teams/backend/pipelines", body{"pipeline_id": servertest.AcmePipelineID, "access_level": "read_only"}).Want(http.StatusCreated)
		if list := bo.Get(path + "/tests").Want(http.StatusOK); list.Len("") != 0 {
			t.Errorf("a member sees tests of a suite of other teams: %s", list.Body)
		}
		want(t, bo.Get(path+"/preflight/v1"), map[string]any{"tests.runs": map[string]any{}, "tests.failures": []any{}})
		for _, below := range []string{"", "/runs", "/tests", "/flaky-tests"} {
			bo.Get(w.suite+below).WantMessage(http.StatusNotFound, "No suite found")
		}
		if list := bo.Get(analytics + "/pipelines/hello/suites").Want(http.StatusOK); list.Len("") != 0 {
			t.Errorf("a member sees suites of other teams: %s", list.Body)
		}
	})
}

// count returns how many rows the tables of results have.
func (w *world) count() string {
	w.t.Helper()
	results, err := w.DB.Results(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var counts []string
	err = results.Read(w.t.Context(), func(q *db.Q) error {
		counts = nil
		for _, table := range []string{"test_runs", "test_uploads", "pipeline_suites", "tests", "test_executions", "test_days", "test_flakes", "test_day_changes", "test_labels"} {
			var n int
			if err := q.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&n); err != nil {
				return err
			}
			counts = append(counts, fmt.Sprint(n))
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(counts, " ")
}

func (w *world) runDue() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestRetention_RemovesOldResults(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.upload(body{"key": w.build(), "commit_sha": "abc"}, "a passed", "a failed", "b passed")
		w.Clock.Advance(60 * 24 * time.Hour)
		w.upload(body{"key": "k", "commit_sha": "def"}, "a passed", "a failed")
		w.get("/tests").Want(http.StatusOK) // counts by day
		w.runDue()
		if got := w.count(); got != "2 2 1 2 5 3 2 0 0" {
			t.Errorf("rows after 60 days: %s", got)
		}
		w.Clock.Advance(31 * 24 * time.Hour)
		w.runDue()
		if got := w.count(); got != "1 1 0 1 2 1 1 0 0" {
			t.Errorf("rows after 91 days: %s", got)
		}
		want(t, w.get("/tests"), map[string]any{"0.name": "a", "0.labels.0": "flaky"})
		w.Apply("organizations: [{slug: acme, limits: {test_retention_days: 7}}]")
		w.Clock.Advance(2 * time.Hour)
		w.runDue()
		if got := w.count(); got != "0 0 0 0 0 0 0 0 0" {
			t.Errorf("rows with a retention of a week: %s", got)
		}
		w.Apply("organizations: [{slug: acme, limits: {test_retention_days: 0}}]")
		w.upload(body{"key": "k"}, "a passed")
		w.get("/tests").Want(http.StatusOK)
		w.Clock.Advance(1000 * 24 * time.Hour)
		w.runDue()
		if got := w.count(); got != "1 1 0 1 1 1 0 0 0" {
			t.Errorf("rows that are kept forever: %s", got)
		}
	})
}

func TestSuiteRemoval_RemovesItsResults(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := newWorld(t, w.Server, "Other")
		other.upload(body{"key": "k"}, "a passed")
		kept := w.count()
		var many []string
		for i := range 6000 { // more than one transaction removes
			many = append(many, fmt.Sprintf("test-%d passed", i))
		}
		w.upload(body{"key": w.build(), "commit_sha": "abc"}, many...)
		w.get("/tests").Want(http.StatusOK) // counts by day
		w.upload(body{"key": "k", "commit_sha": "abc"}, "test-1 failed")
		w.ada.Delete(w.suite).Want(http.StatusNoContent)
		w.runDue()
		if got := w.count(); got != kept {
			t.Errorf("rows after the removal: %s, want %s", got, kept)
		}
		var left int
		err := w.DB.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT COUNT(*) FROM suites WHERE id = $1`, w.id).Scan(&left)
		})
		if err != nil || left != 0 {
			t.Errorf("%d rows of the suite are left, error %v", left, err)
		}
	})
}
