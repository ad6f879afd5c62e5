package web_test

import (
	"strings"
	"testing"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/db"
)

func TestErrors_HelpSignedInPeople(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	ada, cy := signIn(t, s, "ada@acme.test"), signIn(t, s, "cy@rival.test")
	ada.get("/acme/helo").want(404, "Page not found", "Did you mean Hello?", "Search", "Pipelines of Acme Inc")
	ada.get("/acme/helo/builds/1").want(404, "Did you mean Hello?")
	ada.get("/acmee").want(404, "Did you mean Acme Inc?")
	ada.get("/acme/hello/builds/99").want(404, "Page not found").wantNot("Did you mean")

	// Something of another organization looks like something that does not exist.
	body := func(p *page) string { return strings.ReplaceAll(p.want(404).Body, "acmx", "acme") }
	for _, path := range []string{"", "/hello", "/hello/builds/1", "/helo"} {
		if is, isNot := body(cy.get("/acme"+path)), body(cy.get("/acmx"+path)); is != isNot {
			t.Errorf("/acme%s: %s\nbut /acmx%s: %s", path, is, path, isNot)
		}
	}

	share(t, s, "read_only")
	bo := signIn(t, s, "bo@acme.test")
	bo.post(r.Path+"/cancel").want(403, "Access denied", "You can view this build but not change it", "An administrator of Acme Inc can give you access: Ada")

	large := strings.Repeat("# a long comment\n", 10_000)
	ada.post("/acme/hello/settings/steps", "configuration", large+"steps: [{command: make}]").wantRedirect("/acme/hello/settings/steps")
	ada.post("/acme/hello/settings/steps", "configuration", strings.Repeat(large, 28)).want(413, "Form too large", "4 MiB")
	visit(t, s).post("/login", "email", large).want(413, "Form too large")

	if err := s.DB.Write(t.Context(), func(q *db.Q) error {
		_, err := q.Exec(`DROP TABLE pipeline_favorites`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ada.get("/acme").want(500, "Something went wrong", "under the request id", "send the request id", "Go home")

	s.Clock.Advance(2 * account.MaxLifetime)
	ada.header.Set("Referer", s.URL+r.Path+"?job=none")
	ada.post(r.Path + "/cancel").wantRedirect("/login?return_to=%2Facme%2Fhello%2Fbuilds%2F1%3Fjob%3Dnone")
	ada.get("/login?return_to=/acme").want(200, "Your session has expired")
	ada.header.Set("Referer", "https://evil.test/acme")
	ada.post(r.Path + "/cancel").wantRedirect("/login?return_to=%2F")
}
