package web_test

import (
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestPipelinePages_CreateChangeAndDelete(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada := signIn(t, s, "ada@acme.test")
		const form = "/organizations/acme/pipelines"
		ada.get("/acme").want(200, "New pipeline").wantLink(form + "/new")
		ada.get(form+"/new").want(200, "Name", "Repository", "Steps").wantHTML("editor-", `data-check="/organizations/acme/pipelines/check"`)
		ada.post(form, "name", "Shop", "repository", "https://git.example.test/shop.git", "configuration", "steps: [{comand: x}]\n").want(422, "Steps").wantHTML(`value="Shop"`)
		ada.post(form, "name", "Shop", "repository", "https://git.example.test/shop.git", "configuration", "steps:\r\n  - command: make\r\n").wantRedirect("/acme/shop")
		ada.get("/acme/shop").want(200, "Pipeline created", "No builds yet", "Edit steps", "Settings")
		if got := s.As(t, servertest.Ada).Get("/v2/organizations/acme/pipelines/shop").String("configuration"); got != "steps:\n  - command: make\n" {
			t.Errorf("the steps are %q", got)
		}
		ada.get("/acme/shop/settings/steps").want(200, "command: make")
		ada.post("/acme/shop/settings/steps", "configuration", "steps:\n  - wait\n  - nonsense: 1\n").want(422, "line 3")
		ada.post("/acme/shop/settings/steps", "configuration", "steps: [{command: make test}]").wantRedirect("/acme/shop/settings/steps")
		ada.get("/acme/shop/settings").want(200, "Default branch", "Badge", "Archive pipeline").wantHTML("[![Build status]")
		ada.post("/acme/shop/settings", "name", "", "repository", "x").want(422, "Name")
		ada.post("/acme/shop/settings", "name", "Web shop", "description", "Sells", "repository", "https://git.example.test/shop.git", "default_branch", "trunk",
			"cluster_id", servertest.AcmeClusterID, "visibility", "private", "allow_rebuilds", "true").wantRedirect("/acme/shop/settings")
		ada.get("/acme/shop").want(200, "Web shop", "Sells")
		ada.post("/acme/shop/settings/archive", "on", "true").wantRedirect("/acme/shop/settings")
		ada.get("/acme/shop/settings").want(200, "Archived", "Unarchive pipeline")
		ada.post("/acme/shop/settings/archive").wantRedirect("/acme/shop/settings")
		ada.post("/acme/shop/settings/delete", "confirm", "no").wantRedirect("/acme/shop/settings")
		ada.get("/acme/shop/settings").want(200, "Not deleted")
		ada.post("/acme/shop/settings/delete", "confirm", "Web shop").wantRedirect("/acme")
		ada.get("/acme/shop").want(404)
	})
}

func TestPipelinePages_OfPeopleWithLessAccess(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, features: {teams: true}, teams: [{name: Readers, slug: readers, members: [bo@acme.test]}], pipelines: [{slug: hello, teams: {readers: read_only}}]}]`)
		bo := signIn(t, s, "bo@acme.test")
		bo.get("/acme").want(200, "Hello").wantNot("New pipeline")
		bo.get("/acme/hello").want(200).wantNot("Edit steps")
		bo.get("/acme/hello/settings").want(200, "not change it").wantNot("Delete pipeline")
		bo.get("/acme/hello/settings/steps").want(200, "echo hello").wantNot("Save steps")
		bo.post("/acme/hello/settings/steps", "configuration", "steps: [{command: mine}]").want(403)
		bo.post("/acme/hello/settings", "name", "Mine").want(403)
		bo.post("/acme/hello/settings/archive", "on", "true").want(403)
		bo.post("/acme/hello/settings/delete", "confirm", "Hello").want(403)
		bo.post("/acme/hello/settings/schedules", "cronline", "@daily").want(403)
		bo.post("/organizations/acme/pipelines", "name", "Mine", "repository", "https://git.example.test/x.git", "configuration", "steps: [{command: x}]").want(403)
		cy := signIn(t, s, "cy@rival.test")
		cy.get("/acme/hello/settings").want(404)
		cy.post("/organizations/acme/pipelines/check", "configuration", "x").want(404)
	})
}

func TestStepCheck_ReportsErrorsAtTheirLines(t *testing.T) {
	s := onSQLite(t)
	ada := signIn(t, s, "ada@acme.test")
	check := func(yaml string) string {
		t.Helper()
		return ada.post("/organizations/acme/pipelines/check", "configuration", yaml).want(200).Body
	}
	if got := check("steps:\n  - label: Build\n    command: make\n  - wait\n  - group: Tests\n    steps:\n      - command: go test\n"); !strings.Contains(got, `"errors":[]`) ||
		!strings.Contains(got, `{"line":2,"kind":"command","label":"Build","depth":0}`) || !strings.Contains(got, `"label":"go test","depth":1`) {
		t.Errorf("%s", got)
	}
	for yaml, want := range map[string]string{
		"steps:\n  - comand: x\n":   `"line":2`,
		"steps: [":                  `"line":1`,
		"":                          `"errors":[{`,
		"a: &a [*a]":                `"errors":[{`,
		strings.Repeat("[", 10_000): `"errors":[{`,
	} {
		if got := check(yaml); !strings.Contains(got, want) {
			t.Errorf("%.30q: %.300s", yaml, got)
		}
	}
}

func TestPipelineList_ShowsFavoritesAndHowPipelinesDo(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		api := s.As(t, servertest.Ada)
		for _, branch := range []string{"main", "main", "side"} {
			api.Post("/v2/organizations/acme/pipelines/hello/builds", map[string]any{"commit": "abc123", "branch": branch, "message": "On " + branch}).Want(201)
		}
		api.Put("/v2/organizations/acme/pipelines/hello/builds/1/cancel", nil).Want(200)
		ada.get("/acme").want(200, "main: scheduled").wantNot("Favorites").wantHTML("Recent builds of Hello", "Build 3 of side")
		ada.post("/acme/hello/favorite", "on", "true").wantRedirect("/acme")
		ada.get("/acme").want(200, "Hello is a favorite now", "Favorites")
		bo.get("/acme").want(200).wantNot("Favorites")
		ada.post("/acme/hello/favorite").wantRedirect("/acme")
		ada.get("/acme").want(200, "no favorite any more").wantNot("Favorites")

		ada.get("/acme/hello?branch=side").want(200, "On side", "All builds").wantNot("On main")
		ada.get("/acme/hello?branch=&state=canceled&creator=&created_from=&created_to=").want(200, "#1").wantNot("#2", "On side")
		ada.get("/acme/hello?creator=Bo").want(200, "No build matches")
		ada.get("/acme/hello?created_from=2999-01-01").want(200, "No build matches")
		ada.get("/acme/hello?state=x").want(400)
		ada.get("/acme/hello/commits/abc123").want(200, "#1", "#3")
		ada.get("/acme/hello/commits/def").want(200, "No builds of this commit")
	})
}

func TestPipelinePages_ManageSchedulesAndWebhooks(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada := signIn(t, s, "ada@acme.test")
		const at = "/acme/hello/settings/schedules"
		ada.get(at).want(200, "No schedules yet")
		ada.post(at, "cronline", "never").want(422, "When")
		ada.post(at, "cronline", "0 3 * * *", "label", "Nightly", "branch", "main").wantRedirect(at)
		ada.get(at).want(200, "Nightly", "Next: in")
		one := at + "/" + s.As(t, servertest.Ada).Get("/v2/organizations/acme/pipelines/hello/schedules").String("0.id")
		ada.post(one, "do", "disable").wantRedirect(at)
		ada.get(at).want(200, "disabled")
		ada.post(one, "do", "enable").wantRedirect(at)
		ada.post(one, "do", "delete").wantRedirect(at)

		const hooks = "/acme/hello/settings/webhooks"
		ada.get(hooks).want(200, "No webhook received yet", "/hooks/")
		hook := s.As(t, servertest.Ada).Get("/v2/organizations/acme/pipelines/hello/webhook").Want(200)
		id := s.As(t, "").With("X-Gitlab-Event", "System Hook").With("X-Gitlab-Token", hook.String("secret")).Post(hook.String("url"), "{}").Want(202).String("id")
		ada.get(hooks).want(200).wantLink(hooks + "/" + id)
		ada.get(hooks+"/"+id).want(200, "Headers", "Process again")
		ada.post(hooks + "/" + id + "/redeliver").wantRedirect(hooks)
		ada.get(hooks + "/" + servertest.AdaID).want(404)
	})
}
