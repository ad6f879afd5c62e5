package web_test

import (
	"fmt"
	"html"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestBuild_ReportsWhereItComesFromAndLeadsTo(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`
organizations:
  - slug: acme
    pipelines:
      - {slug: oven, name: Oven, repository: 'https://git.example.test/oven.git', cluster: Default, configuration: 'steps: [{label: Bake, command: make bake}]'}
`)
		r := build(t, s, `
steps:
  - {label: To the oven, trigger: oven, key: oven, build: {message: Bake it, branch: main}}
  - {label: Later, command: make later, depends_on: oven, soft_fail: true}
  - {label: Never, command: make never, if: 'build.branch == "never"'}
`, "pull_request_id", 42, "author", map[string]string{"name": "Grace", "email": "grace@acme.test"})
		ada := signIn(t, s, "ada@acme.test")
		trigger, later := r.jobs("To the oven")[0].ID, r.jobs("Later")[0].ID
		ada.get(r.Path).want(200, "Grace", "pull request 42", "2f1c8a0e55", "via API", "by Ada")
		if err := s.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := ada.get(r.Path+"?job="+trigger).want(200, "oven #1")
		ada.get(p.find(`<a href="(/acme/oven/builds/1)">`)).want(200, "Bake it", "Triggered from hello #1", "by another build")
		ada.get(r.Path+"?job="+later).want(200, "It waits for other steps to end: oven.")
		ada.get(r.Path+"?job="+r.jobs("Never")[0].ID).want(200, "The condition of its step is not met.")
	})
}

func TestBuild_ShowsAnnotationsAndArtifacts(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		j := r.take(s.Register(t, nil), "Thresh")
		const at = "https://files.example.test/acme/"
		batch := j.Post(j.Path("/artifacts"), map[string]any{"id": core.NewID(), "upload_destination": at, "artifacts": []any{
			map[string]any{"path": "out/report.txt", "absolute_path": "/x", "glob_path": "", "file_size": 2048, "sha1sum": strings.Repeat("a", 40), "content_type": "text/plain", "url": at + "report.txt"},
			map[string]any{"path": "late.txt", "absolute_path": "/y", "glob_path": "", "file_size": 1, "sha1sum": strings.Repeat("b", 40), "content_type": "text/plain", "url": at + "late.txt"},
		}}).Want(200)
		j.Put(j.Path("/artifacts"), map[string]any{"artifacts": []any{map[string]any{"id": batch.String("artifact_ids.0"), "state": "finished"}}}).Want(200)
		s.As(t, servertest.Ada).Post(fmt.Sprintf("%s/%d/annotations", helloPath, r.Number), map[string]any{"body": "# Yield\n\n**12 sacks**, see [the report](artifact://out/report.txt)", "style": "success"}).Want(201)
		ada := signIn(t, s, "ada@acme.test")
		p := ada.get(r.Path).want(200, "Yield", "12 sacks", "Artifacts", "out/report.txt", "2 KiB", "late.txt new")
		for _, pattern := range []string{`<a href="([^"]*)" rel="nofollow">the report`, `<a href="([^"]*)">out/report.txt`} {
			if got := ada.get(p.find(pattern)).want(302).Header.Get("Location"); got != at+"report.txt" {
				t.Errorf("%s leads to %s", pattern, got)
			}
		}
		cy := signIn(t, s, "cy@rival.test")
		cy.get(p.find(`<a href="([^"]*)">out/report.txt`)).want(404)
	})
}

// A job that waits for an agent says how many could take it.
func TestBuild_CountsTheAgentsThatMatch(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh, agents: {os: linux}}, {label: Bake, command: make bake, agents: {os: linux}}]`)
		ada := signIn(t, s, "ada@acme.test")
		path := r.Path + "/jobs/" + r.jobs("Thresh")[0].ID
		ada.get(path).want(200, "none; no agent of the queue is connected", "os=linux")
		s.Register(t, map[string]any{"name": "mac"})
		ada.get(path).want(200, "none of the 1 connected")
		s.Register(t, map[string]any{"name": "idle", "meta_data": []string{"os=linux"}})
		r.take(s.Register(t, map[string]any{"name": "busy", "meta_data": []string{"os=linux"}}), "Bake")
		ada.get(path).want(200, "2 of the 3 connected, 1 busy")
		explained := s.As(t, servertest.Ada).Get(fmt.Sprintf("%s/%d/jobs/%s/explain", helloPath, r.Number, r.jobs("Thresh")[0].ID)).Want(200)
		if got := explained.String("agents.matching") + " " + explained.String("agents.busy"); got != "2 1" {
			t.Errorf("matching and busy are %s", got)
		}
	})
}

func TestBuild_CollapsesParallelJobs(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: ":hammer: Many", command: make, parallelism: 201}, {label: "Few {{matrix}}", command: make few, matrix: [a, b]}]`)
		ada := signIn(t, s, "ada@acme.test")
		page := ada.get(r.Path).want(200, "🔨 Many", "201 jobs", "203 pending", "Few", "2 jobs", "All 201 jobs of this step").wantNot("201 of 201", "matrix")
		step := page.find(`href="([^"]*step=[^"]*)"`)
		list := ada.get(step).want(200, "201 jobs of", "60 of 201", "All jobs").wantNot("61 of 201")
		ada.get(html.UnescapeString(list.find(`href="([^"]*page=4[^"]*)"`))).want(200, "201 of 201")
		ada.get(r.Path+"?q=FEW").want(200, `2 jobs with`, "Few a", "Few b").wantNot("of 201")
		ada.get(r.Path+"?state=pending").want(200, "203 jobs pending", "1 of 201")
		ada.get(r.Path+"?state=failed").want(200, "0 jobs failed", "No such jobs")
		ada.get(r.Path+"?state=%22%3E&step=x&page=-3&q=%25").want(200, "0 jobs with")
	})
}

// A failed build opens at its first failure, says why jobs did not run, and what an exit status means.
func TestBuild_OpensAtTheFirstFailure(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: One, command: "true"}, {label: Two, command: no-such-tool}, {label: Docs, command: make, branches: docs}, wait, {label: After, command: make}]`)
	a := s.Register(t, nil)
	r.take(a, "One").Finish("0")
	two := r.take(a, "Two")
	appendLog(t, two, 1, 0, "bash: no-such-tool: command not found\n")
	two.Finish("127")
	ada := signIn(t, s, "ada@acme.test")
	page := ada.get(r.Path).want(200, "command not found", "was not found. Check its name", "Its step is not for this branch.", "A step that it depends on failed", "1 failed")
	if got := page.find(`<link rel="icon" href="[^"]*(icon-[a-z]*)`); got != "icon-bad" {
		t.Errorf("the icon is %s", got)
	}
	ada.get(r.Path+"?job=none").want(200, "Two").wantNot("command not found")
	ada.get(r.Path+"?state=failed").want(200, "1 job failed", "Two").wantNot("Docs")
}
