package testresults_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestUpload_AddsToARun(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		env := body{"ci": "buildkite", "key": "k-1", "branch": "main", "commit_sha": "abc", "number": "7", "message": "Fix", "url": "https://ci.test/7", "collector": "js"}
		first := w.upload(env, "Cart/adds passed", "Cart/removes failed", "waits pending", "later skipped", "what unknown")
		want(t, first, map[string]any{"queued": 5, "skipped": 0, "errors": []any{}})
		run := first.String("run_id")
		for _, field := range []string{"id", "upload_id", "run_id"} {
			if _, ok := core.ParseID(first.String(field)); !ok {
				t.Errorf("%s is not a UUID: %s", field, first.Body)
			}
		}
		page := w.URL + "/organizations/acme/analytics/suites/unit/runs/" + run
		want(t, first, map[string]any{"run_url": page, "upload_url": page})

		w.Clock.Advance(time.Minute)
		if second := w.upload(env, "Cart/empties passed"); second.String("run_id") != run {
			t.Error("an upload with the same key makes another run")
		}
		got := w.get("/runs/" + run).Want(http.StatusOK)
		want(t, got, map[string]any{
			"id": run, "branch": "main", "commit_sha": "abc", "state": "finished", "result": "failed", "build_id": nil, "key": "k-1", "number": "7", "message": "Fix",
			"url": w.URL + w.suite + "/runs/" + run, "web_url": page, "source_url": "https://ci.test/7",
			"executions_count": 6, "executions_count_by_result.passed": 2, "executions_count_by_result.failed": 1, "executions_count_by_result.skipped": 1,
			"executions_count_by_result.pending": 1, "executions_count_by_result.unknown": 1, "duration": 3,
		})
		w.upload(body{"key": "late"}, "a passed")
		late := w.upload(body{"key": "late", "branch": "main", "commit_sha": "abc"}, "b passed").String("run_id")
		want(t, w.get("/runs/"+late), map[string]any{"branch": "main", "commit_sha": "abc", "executions_count": 2})
		w.Clock.Advance(time.Minute)
		if other := w.upload(body{"key": "k-2"}, "a passed"); other.String("run_id") == run {
			t.Error("an upload with another key is added to the run")
		}
		list := w.get("/runs").Want(http.StatusOK)
		want(t, list, map[string]any{"0.key": "k-2", "0.result": "passed", "1.key": "late", "2.key": "k-1", "0.branch": nil})
		if list.Len("") != 3 {
			t.Errorf("the runs are %s", list.Body)
		}
	})
}

func TestUpload_TakesFormsAndCompressedBodies(t *testing.T) {
	const junit = `<testsuite name="Cart"><testcase name="adds" time="1.5"/><testcase name="removes"><failure message="no">why</failure></testcase></testsuite>`
	each(t, func(t *testing.T, w *world) {
		contentType, content := form(t, junit, body{"format": "junit", "run_env[CI]": "buildkite", "run_env[key]": "junit", "run_env[commit_sha]": "abc"})
		resp := w.uploader().With("Content-Type", contentType).Post("/v1/uploads", content).Want(http.StatusAccepted)
		want(t, resp, map[string]any{"queued": 2})
		want(t, w.get("/runs/"+resp.String("run_id")), map[string]any{"key": "junit", "commit_sha": "abc", "result": "failed", "duration": 1.5})

		contentType, content = form(t, `[{"name": "a", "result": "passed"}]`, body{"format": "json", "run_env[key]": "form"})
		w.uploader().With("Content-Type", contentType).Post("/v1/uploads", content).Want(http.StatusAccepted)
		w.uploader().With("Content-Encoding", "gzip").Post("/v1/uploads", zipped(`{"run_env": {"key": "zip"}, "data": [{"name": "a", "result": "passed"}]}`)).Want(http.StatusAccepted)
		w.uploader().With("Content-Type", "text/xml").Post("/v1/uploads?run_env[key]=raw", junit).Want(http.StatusAccepted)
		if list := w.get("/runs"); list.Len("") != 4 {
			t.Errorf("the runs are %s", list.Body)
		}
	})
}

func TestUpload_CountsTheSameResultsOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		env := body{"key": "k", "job_id": "j"}
		first := w.upload(env, "a passed", "b failed")
		w.Clock.Advance(time.Second)
		again := w.upload(env, "a passed", "b failed")
		want(t, again, map[string]any{"id": first.String("id"), "run_id": first.String("run_id"), "queued": 0, "skipped": 2, "errors.0": "these results were uploaded before"})
		want(t, w.get("/runs/"+first.String("run_id")), map[string]any{"executions_count": 2})
		w.upload(body{"key": "k", "job_id": "other"}, "a passed", "b failed")
		want(t, w.get("/runs/"+first.String("run_id")), map[string]any{"executions_count": 4})
	})
}

func TestUpload_KeepsWhatCanBeUsed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		resp := w.uploader().Post("/v1/uploads", `{"run_env": {"key": "k"}, "data": [{"name": "a\u0000b", "result": "failed", "failure_reason": "\u0000"}, {"result": "passed"}]}`).Want(http.StatusAccepted)
		want(t, resp, map[string]any{"queued": 1, "skipped": 1, "errors.0": "result 2: it has no name"})
		want(t, w.get("/tests"), map[string]any{"0.name": "a\ufffdb"})
		long := strings.Repeat("é", 5000)
		w.uploader().Post("/v1/uploads", body{"run_env": body{"key": "k", "branch": long, "message": long}, "data": []body{
			{"name": long, "scope": long, "location": long, "result": "failed", "failure_reason": long, "failure_expanded": []body{{"expanded": []string{long, long, long, long, long}}}},
			{"name": long + "x", "scope": long, "result": "passed"},
		}}).Want(http.StatusAccepted)
		if list := w.get("/tests"); list.Len("") != 3 {
			t.Errorf("tests with long names that differ at their ends are the same: %d", list.Len(""))
		}
		w.ada.Post(w.suite+"/tests/find", body{"scope": long, "name": long + "x"}).Want(http.StatusOK)
	})
}

func TestUpload_ReportsProblems(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, test := range []struct {
			auth, body string
			status     int
			text       string
		}{
			{``, `{}`, 401, "API token of a suite"},
			{`Token token="svcst_unknown"`, `{}`, 401, "API token of a suite"},
			{`Bearer ` + servertest.Ada, `{}`, 401, "API token of a suite"},
			{`Basic x`, `{}`, 401, "API token of a suite"},
			{`Bearer a.b.c`, `{}`, 401, "OpenID Connect token is not valid"},
			{`Token ` + w.token, `{`, 400, "not valid JSON"},
			{`Token token="` + w.token + `", nonce="x"`, `{`, 400, "not valid JSON"},
			{`Token token=` + w.token, ``, 400, "no data"},
			{`Bearer ` + w.token, `{"data": []}`, 422, "run_env.key is required"},
			{`token token="` + w.token + `"`, `{"run_env": {"key": "k"}, "data": [{}]}`, 422, "None of the 1 results can be used"},
		} {
			resp := w.As(t, "").With("Authorization", test.auth).Post("/v1/uploads", test.body).Want(test.status)
			if !strings.Contains(resp.String("message"), test.text) {
				t.Errorf("%s with %s: %s", test.body, test.auth, resp.Body)
			}
			if test.status == 401 && resp.Header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		}
		w.Apply("organizations: [{slug: acme, suspended: true}]")
		if resp := w.send(body{"key": "k"}, "a passed").Want(http.StatusServiceUnavailable); resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		w.Apply("organizations: [{slug: acme, suspended: false}]")
		w.ada.Delete(w.suite).Want(http.StatusNoContent)
		w.send(body{"key": "k"}, "a passed").Want(http.StatusUnauthorized)
	})
}

func TestUpload_IsRefusedWhenTooLarge(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.uploader().Post("/v1/uploads", `{"x": "`+strings.Repeat("x", 33<<20)+`"}`).Want(http.StatusRequestEntityTooLarge)
		w.uploader().With("Content-Encoding", "gzip").Post("/v1/uploads", zipped(`{"x": "`+strings.Repeat("x", 65<<20)+`"}`)).Want(http.StatusRequestEntityTooLarge)
	})
}

func TestUpload_ByAJobWhoseTokenThePolicyAllows(t *testing.T) {
	servertest.EachRunning(t, []string{"command: rake"}, func(t *testing.T, b *servertest.RunningBuild) {
		w := newWorld(t, b.Server, "Unit")
		other := newWorld(t, b.Server, "Other")
		tokenFor := func(audience string) string {
			t.Helper()
			return b.Job.Post(b.Job.Path("/oidc/tokens"), body{"audience": audience}).Want(http.StatusOK).String("token")
		}
		send := func(token string) *servertest.Response {
			t.Helper()
			return b.As(t, token).Post("/v1/uploads", body{"run_env": body{"key": core.NewID()}, "data": []body{{"name": "a", "result": "passed"}}})
		}
		page := w.ada.Get(w.suite).String("web_url")
		allow := func(policy any) {
			t.Helper()
			w.ada.Patch(w.suite, body{"oidc_policy": policy}).Want(http.StatusOK)
		}
		token := tokenFor(page)
		refused := func(token, text string) {
			t.Helper()
			if resp := send(token).Want(http.StatusForbidden); !strings.Contains(resp.String("message"), text) {
				t.Errorf("%s", resp.Body)
			}
		}
		refused(token, "does not allow this OpenID Connect token")
		allow([]body{{"iss": b.URL, "claims": body{"pipeline_slug": "other"}}})
		refused(token, "does not allow this OpenID Connect token")
		allow([]body{{"iss": b.URL, "scopes": []string{"read_suites"}}})
		refused(token, "does not allow this OpenID Connect token")
		allow("- iss: " + b.URL + "\n  claims: {organization_slug: acme, build_branch: {matches: '*'}}\n  scopes: [write_uploads]\n")
		resp := send(token).Want(http.StatusAccepted)
		run := w.get("/runs/" + resp.String("run_id")).Want(http.StatusOK)
		if build := b.Show().String("id"); run.String("build_id") != build {
			t.Errorf("the run belongs to build %s, want %s", run.String("build_id"), build)
		}
		send(tokenFor(b.URL + w.suite)).Want(http.StatusAccepted)
		refused(tokenFor("https://elsewhere.test"), "the audience of the OpenID Connect token must be the URL of a suite")
		refused(tokenFor(b.URL+"/organizations/rival/analytics/suites/unit"), "the audience")
		refused(tokenFor(other.ada.Get(other.suite).String("web_url")), "does not allow this OpenID Connect token")
		b.Clock.Advance(time.Hour)
		send(token).WantMessage(http.StatusUnauthorized, "The OpenID Connect token has expired")
		header, claims, _ := strings.Cut(token, ".")
		send(header + "." + claims[1:]).Want(http.StatusUnauthorized)
	})
}

func TestUpload_LinksRunsToBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const suitesOf = analytics + "/pipelines/hello/suites"
		second := newWorld(t, w.Server, "Second")
		unused := newWorld(t, w.Server, "Third")
		unused.upload(body{"key": "not-a-build"}, "a passed")
		for range 3 {
			build := w.build()
			second.upload(body{"key": build}, "a passed")
			w.upload(body{"key": build}, "a passed")
			run := w.get("/runs?build_id=" + build).Want(http.StatusOK)
			if run.Len("") != 1 || run.String("0.build_id") != build {
				t.Errorf("the runs of the build are %s", run.Body)
			}
		}
		list := w.ada.Get(suitesOf).Want(http.StatusOK)
		want(t, list, map[string]any{"0.name": "Unit", "1.name": "Second"})
		if list.Len("") != 2 {
			t.Errorf("the suites of the pipeline are %s", list.Body)
		}
		if page := w.ada.Get(suitesOf + "?per_page=1&page=2"); page.Len("") != 1 || page.String("0.name") != "Second" || !strings.Contains(page.Header.Get("Link"), `rel="prev"`) {
			t.Errorf("page 2 is %s", page.Body)
		}
		if shown := w.ada.Get(suitesOf + "?show_api_token=true").Want(http.StatusOK); shown.String("0.api_token") != w.token || list.Has("0.api_token") {
			t.Errorf("with tokens: %s", shown.Body)
		}
		w.As(t, servertest.Bo).Get(suitesOf + "?show_api_token=true").Want(http.StatusForbidden)
		w.get("/runs?build_id=x").Want(http.StatusBadRequest)
		// The id of a build of another organization links nothing.
		cy := w.As(t, servertest.Cy)
		rival := cy.Post("/v2/analytics/organizations/rival/suites", body{"name": "Unit", "default_branch": "main", "show_api_token": true}).Want(http.StatusCreated)
		stranger := &world{Server: w.Server, t: t, token: rival.String("api_token")}
		run := stranger.upload(body{"key": w.build()}, "a passed").String("run_id")
		want(t, cy.Get("/v2/analytics/organizations/rival/suites/unit/runs/"+run), map[string]any{"build_id": nil})
		w.get("/runs/"+run).WantMessage(http.StatusNotFound, "No run found")
	})
}

func TestUpload_OfManyAtTheSameTimeLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const uploads, results = 12, 40
		var running sync.WaitGroup
		for i := range uploads {
			running.Go(func() {
				var list []string
				for j := range results {
					list = append(list, fmt.Sprintf("test-%d %s", (i*7+j)%50, []string{"passed", "failed"}[i%2]))
				}
				w.upload(body{"key": "k", "commit_sha": "abc", "job_id": fmt.Sprint(i)}, list...)
			})
		}
		running.Wait()
		runs := w.get("/runs")
		want(t, runs, map[string]any{"0.executions_count": uploads * results, "0.executions_count_by_result.failed": uploads * results / 2})
		if runs.Len("") != 1 {
			t.Errorf("%d runs", runs.Len(""))
		}
		total := 0.0
		for i, list := 0, w.get("/tests?per_page=100").Want(http.StatusOK); i < list.Len(""); i++ {
			total += list.At(fmt.Sprintf("%d.executions_count", i)).(float64)
		}
		if total != uploads*results {
			t.Errorf("the tests have %v executions, want %d", total, uploads*results)
		}
		flaky := w.get("/flaky-tests?per_page=100").Want(http.StatusOK)
		for i := range flaky.Len("") {
			want(t, flaky, map[string]any{fmt.Sprintf("%d.instances", i): 1})
		}
		if flaky.Len("") == 0 {
			t.Error("no test is flaky")
		}
	})
}
