package web_test

import (
	"fmt"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestBrowser_FindsItsWayToABuild(t *testing.T) {
	b, s := browse(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	r.take(s.Register(t, nil), "Thresh").Finish("0")
	build(t, s, `steps: [{label: Thresh, command: make thresh}]`, "message", "Bake the sorted sheaves", "branch", "feature/oven")
	b.open("/")
	b.signIn("ada@acme.test")
	b.see("Hello, Ada", "Acme Inc", "Hello", "Bake the sorted sheaves", "Scheduled")
	b.shoot("home")
	b.press("Acme Inc")
	b.see("Pipelines", "Hello", "feature/oven")
	b.shoot("organization")
	b.press("Hello")
	b.see("New build", "Sort the sheaves by size", "Passed", "Bake the sorted sheaves", "#2")
	b.shoot("pipeline")
	b.press("feature/oven")
	b.see("Builds of feature/oven", "#2")
	b.press("Bake")
	b.see("Bake the sorted sheaves", "Cancel build")
	b.press("Hello")
	b.see("New build")
}

func TestPipeline_StartsBuilds(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada := signIn(t, s, "ada@acme.test")
		ada.get("/acme/hello").want(200, "No builds yet", "New build")
		ada.post("/acme/hello/builds", "commit", "", "branch", "main", "message", "Again").want(422, "The commit is required").wantNot("Not saved")
		ada.post("/acme/hello/builds", "commit", "HEAD", "branch", "main", "message", "Again").wantRedirect("/acme/hello/builds/1")
		ada.get("/acme/hello/builds/1").want(200, "Again", "via web", "Build created.")
		s.Apply(`organizations: [{slug: acme, features: {teams: true}}]`)
		bo := signIn(t, s, "bo@acme.test")
		bo.get("/acme/hello").want(404)
		bo.get("/acme").want(200, "No pipelines yet").wantNot("Hello")
		bo.post("/acme/hello/builds", "commit", "HEAD", "branch", "main").want(404)
		share(t, s, "read_only")
		bo.get("/acme").want(200, "Hello", "Again")
		bo.get("/acme/hello").want(200, "Again").wantNot("New build")
		bo.post("/acme/hello/builds", "commit", "HEAD", "branch", "main").want(403, "You can view this pipeline but not build it")
	})
}

func TestPipeline_ShowsSchedules(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		const path = "/v2/organizations/acme/pipelines/hello"
		api := s.As(t, servertest.Ada)
		ada := signIn(t, s, "ada@acme.test")
		ada.get("/acme/hello").want(200).wantNot("Schedules")
		api.Post(path+"/schedules", map[string]any{"cronline": "@hourly", "label": "Often <b>"}).Want(201)
		api.Post(path+"/schedules", map[string]any{"cronline": "0 9 * * MON", "enabled": false}).Want(201)
		ada.get("/acme/hello").want(200, "Schedules", "Often <b>", "@hourly", "next build", "0 9 * * MON", "disabled")
		api.Patch(path, map[string]any{"visibility": "public"}).Want(200)
		signIn(t, s, "cy@rival.test").get("/acme/hello").want(200).wantNot("Schedules", "@hourly")
	})
}

func TestLists_HavePages(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		var more strings.Builder
		for i := range 40 {
			fmt.Fprintf(&more, "      - {slug: p%02d, name: Pipeline %02d, repository: 'https://git.example.test/p.git', cluster: Default, configuration: 'steps: [{command: make}]'}\n", i, i)
		}
		s.Apply("organizations:\n  - slug: acme\n    pipelines:\n" + more.String())
		ada := signIn(t, s, "ada@acme.test")
		ada.get("/acme").want(200, "Hello", "Pipeline 05", "Next").wantNot("Pipeline 39")
		ada.get("/acme?page=2").want(200, "Pipeline 39", "Previous").wantNot("Hello")
		ada.get("/acme?name=line+39").want(200, "Pipeline 39").wantNot("Pipeline 05")
		ada.get("/").want(200, "All 41 pipelines")
		ada.get("/acme?page=x").want(400, "page must be an integer")
		ada.get("/acme?name=%00").want(400)
		ada.get("/acme/hello?branch=%ff").want(400)
		for i := range 31 {
			ada.post("/acme/hello/builds", "commit", "HEAD", "branch", "main", "message", fmt.Sprintf("Number %02d", i)).want(303)
		}
		ada.get("/acme/hello").want(200, "Number 30", "Older").wantNot("Number 00")
		ada.get("/acme/hello?page=2").want(200, "Number 00", "Newer").wantNot("Number 30")
	})
}

// Pages do not reveal which organizations exist.
func TestOrganization_IsForItsMembers(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		cy := signIn(t, s, "cy@rival.test")
		nothing := cy.get("/nobody").want(404).text()
		for _, path := range []string{"/acme", "/acme/hello", "/acme/nothing", "/nobody/hello"} {
			if got := cy.get(path).want(404).text(); got != nothing {
				t.Errorf("%s says %s", path, got)
			}
			visit(t, s).get(path).want(303)
		}
		s.As(t, servertest.Ada).Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"visibility": "public"}).Want(200)
		for _, v := range []*visitor{cy, visit(t, s)} {
			v.get("/acme").want(200, "Hello")
			v.get("/acme/hello").want(200, "Hello").wantNot("New build")
		}
	})
}

func TestPipeline_CreatesBuildsWithEnvironmentAndMetaData(t *testing.T) {
	s := onSQLite(t)
	configure(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	ada := signIn(t, s, "ada@acme.test")
	ada.post("/acme/hello/builds", "commit", "HEAD", "branch", "main", "env", "CROP=rye\r\n\r\nYEAR = 2026=7\r\n", "meta_data", "release=1.2").wantRedirect("/acme/hello/builds/1")
	made := s.As(t, servertest.Ada).Get(helloPath + "/1").Want(200)
	if got := made.String("env.CROP") + " " + made.String("env.YEAR") + " " + made.String("meta_data.release"); got != "rye 2026=7 1.2" {
		t.Errorf("the build has %s", got)
	}
	ada.post("/acme/hello/builds", "commit", "HEAD", "branch", "main", "env", "nonsense").want(422, "Environment variables must be lines of NAME=value", "nonsense")
}
