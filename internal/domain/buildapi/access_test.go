package buildapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

// withLevels switches teams on and gives Bo, through a team of each name, an access level to a pipeline of the
// same name.
func (w *world) withLevels(levels ...string) {
	w.T.Helper()
	w.Apply("organizations: [{slug: acme, features: {teams: true}}]")
	for _, level := range levels {
		slug := strings.ReplaceAll(level, "_", "-")
		w.Apply("organizations: [{slug: acme, teams: [{name: " + slug + ", slug: " + slug + ", members: [bo@acme.test]}]}]")
		team := w.Ada.Get(acme + "/teams/" + slug).Want(http.StatusOK).String("id")
		w.AddPipeline(slug, map[string]any{"teams": map[string]string{team: level}}, "{command: a, key: a}", "{block: Go, key: ask}")
		w.Ada.Post(acme+"/pipelines/"+slug+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	}
}

func TestAccess_WithTeamsFollowsTheLevelOnThePipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		levels := []string{"read_only", "build_and_read", "manage_build_and_read"}
		w.withLevels(levels...)
		w.Steps("{command: a, key: a}", "{block: Go, key: ask}")
		w.Create(nil)
		bo := w.As(t, servertest.Bo)
		for _, level := range append(levels, "") {
			read, change := http.StatusOK, http.StatusOK
			slug := strings.ReplaceAll(level, "_", "-")
			switch level {
			case "":
				read, change, slug = http.StatusNotFound, http.StatusNotFound, "hello"
			case "read_only":
				change = http.StatusForbidden
			}
			path := acme + "/pipelines/" + slug + "/builds"
			build := w.Ada.Get(path + "/1").Want(http.StatusOK)
			job := build.String("jobs.0.id")
			for _, get := range []string{path, path + "/1", path + "/1/jobs", path + "/1/jobs/" + job, path + "/1/jobs/" + job + "/env", acme + "/jobs/" + job, acme + "/jobs/" + job + "/env.txt", acme + "/jobs/" + job + "/explain"} {
				bo.Get(get).Want(read)
			}
			created := change
			if change == http.StatusOK {
				created = http.StatusCreated
			}
			bo.Post(path, map[string]any{"commit": "HEAD", "branch": "main"}).Want(created)
			bo.Put(path+"/1/rebuild", nil).Want(change)
			bo.Put(acme+"/jobs/"+job+"/reprioritize", map[string]any{"priority": 1}).Want(change)
			bo.Put(path+"/1/jobs/"+job+"/cancel", nil).Want(change)
			bo.Put(acme+"/jobs/"+job+"/retry", nil).Want(change)
			if change == http.StatusOK {
				bo.Put(path+"/1/retry_failed_jobs", nil).Want(http.StatusAccepted)
			} else {
				bo.Put(path+"/1/retry_failed_jobs", nil).Want(change)
				bo.Put(acme+"/jobs/"+w.Ada.Get(path+"/1").String("jobs.1.id")+"/unblock", nil).Want(change)
			}
			bo.Put(path+"/1/cancel", nil).Want(change)
		}
		for _, path := range []string{acme + "/builds", "/v2/builds"} {
			var builds []struct{ Pipeline struct{ Slug string } }
			bo.Get(path).Want(http.StatusOK).JSON(&builds)
			for _, b := range builds {
				if b.Pipeline.Slug == "hello" {
					t.Errorf("%s shows Bo a build of a pipeline that he cannot see", path)
				}
			}
			servertest.WantEqual(t, path, len(builds), 7) // each his three, and two more of two of them
		}
	})
}

func TestAccess_NeedsTheScopeOfTheRoute(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		for _, scope := range []string{"read_builds", "write_builds", "read_job_env", "read_pipelines"} {
			w.Apply(fmt.Sprintf(`organizations: [{slug: acme, members: [{email: ada@acme.test, access_tokens: [{description: %s, token: svcua_%s, scopes: [%s]}]}]}]`, scope, scope, scope))
		}
		job := w.Build(1).String("jobs.0.id")
		for _, c := range []struct{ method, path, scope string }{
			{"GET", "/v2/builds", "read_builds"},
			{"GET", acme + "/builds", "read_builds"},
			{"GET", hello, "read_builds"},
			{"GET", hello + "/1", "read_builds"},
			{"GET", hello + "/1/jobs", "read_builds"},
			{"GET", hello + "/1/jobs/" + job, "read_builds"},
			{"GET", acme + "/jobs/" + job, "read_builds"},
			{"GET", acme + "/jobs/" + job + "/explain", "read_builds"},
			{"GET", acme + "/jobs/" + job + "/env", "read_job_env"},
			{"GET", hello + "/1/jobs/" + job + "/env.txt", "read_job_env"},
			{"POST", hello, "write_builds"},
			{"PUT", hello + "/1/rebuild", "write_builds"},
			{"PUT", hello + "/1/retry_failed_jobs", "write_builds"},
			{"PUT", acme + "/jobs/" + job + "/reprioritize", "write_builds"},
			{"PUT", acme + "/jobs/" + job + "/retry", "write_builds"},
			{"PUT", acme + "/jobs/" + job + "/unblock", "write_builds"},
			{"PUT", hello + "/1/jobs/" + job + "/cancel", "write_builds"},
			{"PUT", hello + "/1/cancel", "write_builds"},
		} {
			for _, scope := range []string{"read_builds", "write_builds", "read_job_env", "read_pipelines"} {
				got := w.As(t, "svcua_"+scope).Do(c.method, c.path, nil)
				if refused := got.Status == http.StatusForbidden; refused == (scope == c.scope) {
					t.Errorf("%s %s with %s: status %d", c.method, c.path, scope, got.Status)
				}
			}
		}
	})
}

func TestAccess_LetsStrangersReadBuildsOfPublicPipelines(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Ada.Put(acme+"/pipeline-settings/public-pipelines", nil).Want(http.StatusOK)
		w.Steps("{command: a, key: a}", "{block: Go, key: ask}")
		w.Create(map[string]any{"env": map[string]any{"SECRET": "x"}})
		job, cy := w.Job(1, "a"), w.As(t, servertest.Cy)
		reads := []string{hello, hello + "/1", hello + "/1/jobs", hello + "/1/jobs/" + job, acme + "/jobs/" + job}
		for _, path := range reads {
			cy.Get(path).Want(http.StatusNotFound)
		}
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"visibility": "public"}).Want(http.StatusOK)
		for _, path := range reads {
			if got := cy.Get(path).Want(http.StatusOK); strings.Contains(string(got.Body), "SECRET") {
				t.Errorf("%s shows a stranger the environment: %s", path, got.Body)
			}
		}
		hidden := []string{
			hello + "/1/jobs/" + job + "/env", acme + "/jobs/" + job + "/env", acme + "/jobs/" + job + "/env.txt",
			acme + "/jobs/" + job + "/explain", acme + "/jobs/" + job + "/timeline", hello + "/1/step-uploads",
		}
		for _, path := range append(hidden, acme+"/builds") {
			cy.Get(path).Want(http.StatusNotFound)
		}
		for _, path := range []string{hello + "/1/cancel", hello + "/1/rebuild", hello + "/1/retry_failed_jobs", acme + "/jobs/" + job + "/retry", acme + "/jobs/" + job + "/unblock", acme + "/jobs/" + job + "/reprioritize", hello + "/1/jobs/" + job + "/cancel"} {
			cy.Put(path, map[string]any{"priority": 1}).Want(http.StatusNotFound)
		}
		cy.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusNotFound)
		w.WantStates(1, "scheduled", "a scheduled, ask waiting")
		// Members without access see what strangers see, and no more.
		w.Apply("organizations: [{slug: acme, features: {teams: true}}]")
		bo := w.As(t, servertest.Bo)
		for _, path := range reads {
			if mine, theirs := bo.Get(path).Want(http.StatusOK), cy.Get(path).Want(http.StatusOK); string(mine.Body) != string(theirs.Body) {
				t.Errorf("%s shows a member without access %s, and a stranger %s", path, mine.Body, theirs.Body)
			}
		}
		for _, path := range hidden {
			bo.Get(path).Want(http.StatusNotFound)
		}
		bo.Get(acme+"/jobs/"+job+"/env").WantMessage(http.StatusNotFound, "No job found")
		bo.Put(hello+"/1/cancel", nil).Want(http.StatusForbidden)
	})
}

// A private pipeline that a public one triggers, or is triggered by, stays unknown to strangers.
func TestAccess_HidesPrivatePipelinesBehindTriggersFromStrangers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("private-child", nil, "{command: x}")
		w.Steps("{trigger: private-child, key: go, async: true, label: Go}")
		w.CreateAll(nil)
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"visibility": "public"}).Want(http.StatusOK)
		cy := w.As(t, servertest.Cy)
		for _, path := range []string{hello + "/1", hello + "/1/jobs"} {
			if got := w.Ada.Get(path).Want(http.StatusOK); !strings.Contains(string(got.Body), "private-child/builds/1") {
				t.Errorf("%s shows a member no build that was triggered: %s", path, got.Body)
			}
			if got := cy.Get(path).Want(http.StatusOK); strings.Contains(string(got.Body), "private-child/builds/1") {
				t.Errorf("%s shows a stranger a private pipeline: %s", path, got.Body)
			}
		}
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"visibility": "private"}).Want(http.StatusOK)
		w.Ada.Patch(acme+"/pipelines/private-child", map[string]any{"visibility": "public"}).Want(http.StatusOK)
		if got := cy.Get(acme + "/pipelines/private-child/builds/1").Want(http.StatusOK); got.Has("triggered_from") {
			t.Errorf("a stranger sees what triggered it: %s", got.Body)
		}
	})
}
