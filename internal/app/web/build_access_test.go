package web_test

import (
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestBuild_IsForThoseWhoMaySeeThePipeline(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		id := r.jobs("Thresh")[0].ID
		below := []string{"", "/live", "/jobs/" + id + "/log.txt", "/jobs/" + id + "/log.html", "/jobs/" + id + "/artifacts/" + core.NewID()}
		for _, path := range below {
			visit(t, s).get(r.Path + path).wantRedirect("/login?return_to=" + url.QueryEscape(r.Path+path))
		}
		// same checks that a page is what the visitor sees where there is nothing.
		same := func(who string, p, nothing *page) {
			t.Helper()
			if p.want(404).text() != nothing.want(404).text() {
				t.Errorf("%s distinguishes %q from %q", who, p.text(), nothing.text())
			}
		}
		cy := signIn(t, s, "cy@rival.test")
		for _, path := range below {
			same("a stranger", cy.get(r.Path+path), cy.get("/missing/hello/builds/1"+path))
		}
		same("a stranger", cy.get("/acme/hello/builds/x"), cy.get("/missing/hello/builds/x"))
		same("a stranger in their own organization", cy.get("/rival/hello/builds/1"), cy.get("/rival/missing/builds/1"))
		ada := signIn(t, s, "ada@acme.test")
		same("a member", ada.get("/acme/hello/builds/x"), ada.get("/acme/hello/builds/77"))
		bo := signIn(t, s, "bo@acme.test")
		bo.get(r.Path).want(200, "Sort the sheaves", "Thresh", "Rebuild")

		s.Apply(`organizations: [{slug: acme, features: {teams: true}}]`)
		same("a member without access", bo.get(r.Path), bo.get("/acme/nothing/builds/1"))
		for _, path := range []string{"/cancel", "/rebuild", "/jobs/" + id + "/retry", "/jobs/" + id + "/cancel", "/jobs/" + id + "/unblock"} {
			same("a member without access", bo.post(r.Path+path), bo.post("/acme/nothing/builds/1"+path))
			visit(t, s).post(r.Path + path).wantRedirect("/login?return_to=%2F")
		}
		s.Apply(`organizations: [{slug: acme, suspended: true}]`)
		signIn(t, s, "ada@acme.test").get(r.Path).want(503, "temporarily unavailable")
		same("a stranger", cy.get(r.Path), cy.get("/missing/hello/builds/1"))
	})
}

// share gives Bo's team an access level on the pipeline hello.
func share(t *testing.T, s *servertest.Server, level string) {
	t.Helper()
	ada := s.As(t, servertest.Ada)
	s.Apply(`organizations: [{slug: acme, features: {teams: true}, teams: [{name: Bakers, slug: bakers, id: 0190c0de-0000-7000-8000-0000000000e2, members: [bo@acme.test]}]}]`)
	ada.Post("/v2/organizations/acme/teams/0190c0de-0000-7000-8000-0000000000e2/pipelines", map[string]any{"pipeline_id": servertest.AcmePipelineID, "access_level": level}).Want(201)
}

func TestBuild_OffersAndDoesWhatTheVisitorMayDo(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}, {block: Release, depends_on: []}, {block: Mine, key: mine, depends_on: [], allowed_teams: [bakers]}]`)
		thresh, release, mine := r.jobs("Thresh")[0].ID, r.jobs("Release")[0].ID, r.jobs("Mine")[0].ID
		share(t, s, "read_only")
		bo := signIn(t, s, "bo@acme.test")
		p := bo.get(r.Path).want(200, "Thresh", "Release")
		p.wantNot("Rebuild", "Cancel", "Retry")
		if strings.Contains(p.Body, release+"/unblock") || !strings.Contains(p.Body, mine+"/unblock") {
			t.Error("a reader is offered to unblock what is not theirs, or not what is")
		}
		for _, path := range []string{"/cancel", "/rebuild", "/jobs/" + thresh + "/cancel", "/jobs/" + thresh + "/retry", "/jobs/" + release + "/unblock"} {
			bo.post(r.Path+path).want(403, "You can view this build but not change it")
		}
		bo.post(r.Path + "/jobs/" + mine + "/unblock").wantRedirect(r.Path + "#" + mine)
		bo.post(r.Path+"/jobs/"+mine+"/unblock").want(422, "The job's state must be blocked")

		ada := signIn(t, s, "ada@acme.test")
		ada.post(r.Path+"/jobs/"+thresh+"/retry").want(422, "Only failed, timed out or canceled jobs can be retried", "Thresh")
		ada.post(r.Path + "/jobs/" + thresh + "/cancel").wantRedirect(r.Path + "?job=" + thresh + "#" + thresh)
		ada.get(r.Path).want(200, "Canceling job.", "Canceled")
		ada.post(r.Path+"/jobs/"+thresh+"/cancel").want(422, "Job can't be canceled because it's already finished.")
		again := ada.post(r.Path + "/jobs/" + thresh + "/retry").Header.Get("Location")
		if want := r.Path + "?job=" + r.jobs("Thresh")[0].ID; !strings.HasPrefix(again, want) {
			t.Errorf("a retry leads to %s, want %s", again, want)
		}
		ada.get(r.Path).want(200, "1 earlier attempt", "attempt 2")
		ada.post(r.Path+"/jobs/"+thresh+"/retry").want(422, "This job has already been retried")
		ada.post(r.Path + "/retry").wantRedirect(r.Path)
		ada.get(r.Path).want(200, "0 jobs retried.")
		ada.post(r.Path + "/cancel").wantRedirect(r.Path)
		ada.post(r.Path+"/cancel").want(422, "Build can't be canceled because it's already finished.")
		ada.post(r.Path + "/rebuild").wantRedirect("/acme/hello/builds/2")
		ada.get("/acme/hello/builds/2").want(200, "Rebuilt from #1", "via web")
		for _, path := range []string{"/jobs/x/retry", "/jobs/" + core.NewID() + "/cancel"} {
			ada.post(r.Path+path).want(404, "This page does not exist")
		}
	})
}

func TestBuild_OfAPublicPipelineIsForEverybodyToLookAt(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}, {block: Release, depends_on: []}]`, "env", map[string]string{"SECRET": "sesame"})
		s.As(t, servertest.Ada).Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"visibility": "public"}).Want(200)
		j := r.take(s.Register(t, nil), "Thresh")
		appendLog(t, j, 1, 0, "for all to see\n")
		for _, v := range []*visitor{visit(t, s), signIn(t, s, "cy@rival.test")} {
			v.get(r.Path+"?job="+j.ID).want(200, "Thresh", "for all to see", "Running").wantNot("Rebuild", "Cancel", "Unblock", "sesame")
			v.get(r.Path+"/jobs/"+j.ID+"/log.txt").want(200, "for all to see")
		}
		signIn(t, s, "cy@rival.test").post(r.Path+"/cancel").want(403, "You can view this build")
		visit(t, s).post(r.Path + "/cancel").wantRedirect("/login?return_to=%2F")
	})
}

func TestBuild_RunsOurOwnScriptAndNoOther(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	ada := signIn(t, s, "ada@acme.test")
	p := ada.get(r.Path).want(200)
	if want := "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"; p.Header.Get("Content-Security-Policy") != want {
		t.Errorf("the policy is %s", p.Header.Get("Content-Security-Policy"))
	}
	script := ada.get(p.find(`<script src="([^"]*)" defer>`)).want(200)
	if got := script.Header.Get("Content-Type"); got != "text/javascript; charset=utf-8" {
		t.Errorf("the script is %s", got)
	}
	id := r.jobs("Thresh")[0].ID
	if got := ada.get(r.Path + "/jobs/" + id + "/log.txt").want(200).Header; got.Get("Content-Type") != "text/plain; charset=utf-8" || got.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(got.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("a log as text has %v", got)
	}
}

// Forms from another site have no effect.
func TestBuild_FormsFromAnotherSiteAreRefused(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	id := r.jobs("Thresh")[0].ID
	ada := signIn(t, s, "ada@acme.test")
	ada.header.Set("Sec-Fetch-Site", "cross-site")
	for _, path := range []string{"/cancel", "/rebuild", "/jobs/" + id + "/cancel", "/jobs/" + id + "/retry", "/jobs/" + id + "/unblock"} {
		ada.post(r.Path+path).want(403, "came from another site")
	}
	if got := r.jobs("Thresh")[0].State; got != "scheduled" {
		t.Errorf("the job is %s", got)
	}
}
