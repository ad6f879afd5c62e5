package buildapi_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
)

func TestGet_FindsABuildByNumberOrID(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("other", nil, "command: x")
		id := w.Create(nil).String("id")
		for _, name := range []string{"1", id, strings.ToUpper(id)} {
			servertest.WantEqual(t, name, w.Ada.Get(hello+"/"+name).Want(http.StatusOK).String("id"), id)
			w.Ada.Get(hello + "/" + name + "/jobs").Want(http.StatusOK)
		}
		for _, name := range []string{"0", "2", "-1", "1.0", "x", "1x", "99999999999999999999", core.NewID(), "1%2F1"} {
			w.Ada.Get(hello+"/"+name).WantMessage(http.StatusNotFound, "No build found")
			w.Ada.Get(hello + "/" + name + "/jobs").Want(http.StatusNotFound)
			w.Ada.Put(hello+"/"+name+"/cancel", nil).Want(http.StatusNotFound)
		}
		w.Ada.Get(acme+"/pipelines/other/builds/"+id).WantMessage(http.StatusNotFound, "No build found")
		w.Ada.Get(acme+"/pipelines/other/builds/1").WantMessage(http.StatusNotFound, "No build found")
		w.Ada.Get(acme+"/pipelines/gone/builds/1").WantMessage(http.StatusNotFound, "No pipeline found")
	})
}

func TestGet_LeavesOutWhatIsNotWanted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		for _, path := range []string{hello + "/1", hello, acme + "/builds", "/v2/builds"} {
			at := ""
			if path != hello+"/1" {
				at = "0."
			}
			for _, c := range []struct {
				query          string
				jobs, pipeline bool
			}{
				{"", true, true},
				{"?exclude_jobs=true", false, true},
				{"?exclude_jobs=1&exclude_pipeline=false", false, true},
				{"?exclude_pipeline=true", true, false},
				{"?exclude_pipeline=True&exclude_jobs=TRUE", false, false},
			} {
				got := w.Ada.Get(path + c.query).Want(http.StatusOK)
				servertest.WantEqual(t, path+c.query+" jobs", got.Has(at+"jobs"), c.jobs)
				servertest.WantEqual(t, path+c.query+" pipeline", got.Has(at+"pipeline"), c.pipeline)
				servertest.WantEqual(t, path+c.query+" counts", got.Has(at+"job_state_counts"), at == "")
				servertest.WantEqual(t, path+c.query+" test engine", got.Has(at+"test_engine"), false)
			}
			w.Ada.Get(path+"?exclude_jobs=x").WantMessage(http.StatusBadRequest, "exclude_jobs must be true or false")
			w.Ada.Get(path+"?exclude_pipeline=x").WantMessage(http.StatusBadRequest, "exclude_pipeline must be true or false")
			w.Ada.Get(path+"?include_retried_jobs=x").WantMessage(http.StatusBadRequest, "include_retried_jobs must be true or false")
		}
		servertest.WantEqual(t, "runs", w.Ada.Get(hello+"/1?include_test_engine=true").Len("test_engine.runs"), 0)
		// Filters of lists mean nothing for one build.
		w.Ada.Get(hello + "/1?branch[]=other&state[]=passed&creator=x&page=2&per_page=1&commit=x").Want(http.StatusOK)
	})
}

func TestGet_ShowsTheLatestAttemptsUnlessAllAreRequested(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}")
		w.Create(nil)
		first := w.Job(1, "a")
		w.Run(1, "a", 1)
		second := w.Ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK).String("id")
		for path, at := range map[string]string{hello + "/1": "", hello: "0.", acme + "/builds": "0.", "/v2/builds": "0."} {
			latest := w.Ada.Get(path).Want(http.StatusOK)
			servertest.WantEqual(t, path, latest.Len(at+"jobs"), 2)
			servertest.WantEqual(t, path, latest.String(at+"jobs.0.id"), second)
			all := w.Ada.Get(path + "?include_retried_jobs=true").Want(http.StatusOK)
			servertest.WantEqual(t, path, all.Len(at+"jobs"), 3)
			servertest.WantEqual(t, path, all.String(at+"jobs.0.id"), first)
			servertest.WantEqual(t, path, all.String(at+"jobs.1.id"), second)
		}
		servertest.WantAt(t, w.Build(1), map[string]any{"job_state_counts": map[string]any{"total": 2, "states": map[string]any{"scheduled": 2}}})
		all := w.Ada.Get(hello + "/1?include_retried_jobs=true")
		servertest.WantAt(t, all, map[string]any{"job_state_counts": map[string]any{"total": 3, "states": map[string]any{"scheduled": 2, "failed": 1}}})
	})
}

func TestGet_ShowsJobsOfTheRequestedStatesAndCountsThemAll(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: good, key: good}", "{command: bad, key: bad, soft_fail: true}", "wait", "{command: next, key: next}", "{block: Go, key: ask}", "{command: last, key: last}")
		w.Create(nil)
		w.Run(1, "good", 0)
		w.Run(1, "bad", 1)
		counts := map[string]any{"total": 6, "states": map[string]any{"passed": 2, "failed": 1, "scheduled": 1, "waiting": 2}}
		for query, want := range map[string]string{
			"":                    "good passed, bad failed, waiter passed, next scheduled, ask waiting, last waiting",
			"job_states[]=passed": "good passed, waiter passed",
			"job_states[]=failed": "bad failed",
			"job_states=FAILED":   "bad failed",
			"job_states[]=failed&job_states[]=Waiting": "bad failed, ask waiting, last waiting",
			"job_states[]=running":                     "",
		} {
			got := w.Ada.Get(hello + "/1?" + query).Want(http.StatusOK)
			var build struct{ Jobs []buildstest.Job }
			got.JSON(&build)
			servertest.WantEqual(t, query, buildstest.Describe(build.Jobs), want)
			servertest.WantAt(t, got, map[string]any{"job_state_counts": counts})
		}
		servertest.WantAt(t, w.Ada.Get(hello+"/1?exclude_jobs=true&job_states[]=failed"), map[string]any{"job_state_counts": counts})
		for _, wrong := range []string{"finished", "reserved", "x", ""} {
			refused := w.Ada.Get(hello + "/1?job_states[]=" + wrong).Want(http.StatusBadRequest)
			if !strings.Contains(refused.String("message"), "is not a state of a job") {
				t.Errorf("%q: %s", wrong, refused.Body)
			}
		}
	})
}

// The responses do not differ from those for builds that do not exist.
func TestBuilds_OfAnotherOrganizationDoNotExist(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(nil).String("id")
		job := w.Build(1).String("jobs.0.id")
		cy := w.As(t, servertest.Cy)
		cy.Post(rival+"/pipelines", map[string]any{
			"name": "Hello", "repository": "https://git.example.test/rival/hello.git",
			"cluster_id": servertest.RivalClusterID, "configuration": "steps: [command: x]",
		}).Want(http.StatusCreated)
		theirs := rival + "/pipelines/hello/builds"
		cy.Post(theirs, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		for _, path := range []string{"/" + id, "/" + id + "/jobs", "/" + id + "/jobs/" + job, "/1/jobs/" + job, "/1/jobs/" + job + "/env", "/1/jobs/" + job + "/explain"} {
			cy.Get(theirs + path).Want(http.StatusNotFound)
		}
		for _, path := range []string{"", "/env", "/env.txt", "/explain"} {
			cy.Get(rival+"/jobs/"+job+path).WantMessage(http.StatusNotFound, "No job found")
			cy.Get(acme+"/jobs/"+job+path).WantMessage(http.StatusNotFound, "No organization found")
			cy.Get(hello + "/1/jobs/" + job + path).Want(http.StatusNotFound)
		}
		for _, action := range []string{"/retry", "/reprioritize", "/unblock", "/cancel"} {
			cy.Put(rival+"/jobs/"+job+action, map[string]any{"priority": 1}).WantMessage(http.StatusNotFound, "No job found")
			cy.Put(theirs+"/1/jobs/"+job+action, map[string]any{"priority": 1}).WantMessage(http.StatusNotFound, "No job found")
			cy.Put(acme+"/jobs/"+job+action, map[string]any{"priority": 1}).WantMessage(http.StatusNotFound, "No organization found")
		}
		for _, action := range []string{"/cancel", "/rebuild", "/retry_failed_jobs"} {
			cy.Put(theirs+"/"+id+action, nil).WantMessage(http.StatusNotFound, "No build found")
			cy.Put(hello+"/1"+action, nil).Want(http.StatusNotFound)
		}
		cy.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusNotFound)
		cy.Get(acme + "/builds").Want(http.StatusNotFound)
		for _, path := range []string{"/v2/builds", rival + "/builds"} {
			list := cy.Get(path).Want(http.StatusOK)
			if list.Len("") != 1 || list.String("0.pipeline.repository") != "https://git.example.test/rival/hello.git" {
				t.Errorf("%s: got %s", path, list.Body)
			}
		}
		servertest.WantEqual(t, "acme's builds", w.Ada.Get("/v2/builds").Len(""), 1)
		servertest.WantEqual(t, "builds by Cy", w.Ada.Get(acme+"/builds?creator="+servertest.CyID).Len(""), 0)
		w.WantStates(1, "scheduled", "echo hello scheduled")
	})
}
