package web_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

const acmeSuites = "/organizations/acme/analytics/suites"

// newSuite creates a suite called Unit and returns a function that uploads one result to it. The function returns the id
// of the run.
func newSuite(t *testing.T, s *servertest.Server) (upload func(key, commit, name, result string) string) {
	t.Helper()
	made := s.As(t, servertest.Ada).Post("/v2/analytics/organizations/acme/suites", map[string]any{
		"name": "Unit", "default_branch": "main", "application_name": "Shop", "emoji": "🍋", "show_api_token": true}).Want(http.StatusCreated)
	return func(key, commit, name, result string) string {
		t.Helper()
		return s.As(t, made.String("api_token")).Post("/v1/uploads", map[string]any{
			"run_env": map[string]any{"key": key, "branch": "main", "commit_sha": commit, "message": "Message of " + key},
			"data": []map[string]any{{"scope": "Cart", "name": name, "location": "cart.rb:3", "result": result, "failure_reason": "<b>want</b> 1",
				"failure_expanded": []map[string]any{{"expanded": []string{"got 2"}, "backtrace": []string{"cart.rb:4"}}}}},
		}).Want(http.StatusAccepted).String("run_id")
	}
}

// wantLink fails the test unless the page has a link to a path.
func (p *page) wantLink(path string) *page {
	p.t.Helper()
	if !strings.Contains(p.Body, `href="`+path+`"`) {
		p.t.Errorf("%s: no link to %s", p.what, path)
	}
	return p
}

// wantHTML fails the test unless the page has texts that people do not see as such.
func (p *page) wantHTML(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.Body, text) {
			p.t.Errorf("%s: no %s", p.what, text)
		}
	}
}

func TestSuitePages_ShowRunsAndFlakyTests(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada := signIn(t, s, "ada@acme.test")
		ada.get("/acme").want(200, "Test suites").wantLink(acmeSuites)
		ada.get(acmeSuites).want(200, "No test suites yet")
		upload := newSuite(t, s)
		ada.get(acmeSuites).want(200, "🍋 Unit", "Shop").wantLink(acmeSuites + "/unit")
		ada.get(acmeSuites+"/unit").want(200, "No runs yet", "No flaky tests", "/v1/uploads")
		upload("one", "abc", "adds", "passed")
		run := upload("two", "abc", "adds", "failed")
		test := s.As(t, servertest.Ada).Get("/v2/analytics/organizations/acme/suites/unit/tests").String("0.id")
		ada.get(acmeSuites+"/unit").want(200, "Message of one", "Message of two", "Cart adds", "1 commit", "0 passed, 1 failed").
			wantLink(acmeSuites + "/unit/runs/" + run).wantLink(acmeSuites + "/unit/tests/" + test)
		ada.get(acmeSuites+"/unit").want(200, "1 passed, 1 failed").wantLink(acmeSuites+"/unit/tests").
			wantHTML("Results of 2 runs", `<rect class="bad"`, `<rect class="good"`, "Results of the last 28 days")
		ada.get(acmeSuites+"/unit/tests").want(200, "Cart adds", "50%", "flaky", "cart.rb:3").wantLink(acmeSuites + "/unit/tests/" + test)
		ada.get(acmeSuites+"/unit/tests?search=add&sort=reliability").want(200, "Cart adds").wantHTML(`value="add"`, `value="reliability" selected`)
		ada.get(acmeSuites+"/unit/tests?search=nothing").want(200, "No tests found")
		ada.get(acmeSuites+"/unit?branch=other").want(200, "No runs of this branch", "All branches")
		ada.get(acmeSuites+"/unit/runs/"+run).want(200, "Message of two", "Cart adds", "cart.rb:3", "<b>want</b> 1", "got 2", "cart.rb:4")
		ada.get(acmeSuites+"/unit/tests/"+test).want(200, "Cart adds", "flaky", "Last 28 days", "Executions", "50%", "1 passed, 1 failed", "Message of one", "Message of two")
		for _, path := range []string{"/nothing", "/unit/runs/" + test, "/unit/runs/x", "/unit/tests/" + run, "/unit/tests/x"} {
			ada.get(acmeSuites + path).want(404)
		}
	})
}

func TestSuitePages_AreForMembersWhoCanSeeTheSuite(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		upload := newSuite(t, s)
		run := upload("one", "abc", "adds", "failed")
		signIn(t, s, "cy@rival.test").get(acmeSuites + "/unit").want(404).wantNot("Unit")
		visit(t, s).get(acmeSuites + "/unit").wantRedirect("/login?return_to=%2Forganizations%2Facme%2Fanalytics%2Fsuites%2Funit")
		s.Apply(`organizations: [{slug: acme, features: {teams: true}}]`)
		bo := signIn(t, s, "bo@acme.test")
		bo.get(acmeSuites).want(200, "No test suites yet")
		bo.get(acmeSuites + "/unit").want(404)
		bo.get(acmeSuites + "/unit/runs/" + run).want(404)
	})
}
