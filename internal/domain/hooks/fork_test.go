package hooks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// A reach is something that a job can request.
type reach struct {
	name    string
	fork    int // the status for jobs of builds from forks
	trusted int // the status for other jobs
	request func(job *servertest.Job) *servertest.Response
}

// reachable lists what jobs can request. Builds from forks get no credentials, and nothing of other builds.
func (w *world) reachable(otherBuild string) []reach {
	const ok, forbidden = http.StatusOK, http.StatusForbidden
	get := func(path string) func(*servertest.Job) *servertest.Response {
		return func(j *servertest.Job) *servertest.Response { return j.Get(j.Path(path)) }
	}
	post := func(path string, body fields) func(*servertest.Job) *servertest.Response {
		return func(j *servertest.Job) *servertest.Response { return j.Post(j.Path(path), body) }
	}
	return []reach{
		{"a secret", forbidden, ok, get("/secrets?key=DEPLOY")},
		{"a secret that does not exist", forbidden, http.StatusNotFound, get("/secrets?key=NONE")},
		{"an OpenID Connect token", forbidden, ok, post("/oidc/tokens", fields{"audience": "sts.amazonaws.com"})},
		{"a token for the repository", forbidden, ok, post("/repository_access_token", fields{"repo_url": "https://github.com/acme/app.git"})},
		{"meta-data of its own build", ok, ok, post("/data/exists", fields{"key": "k"})},
		{"meta-data of another build", forbidden, forbidden, func(j *servertest.Job) *servertest.Response {
			return j.Post("/v3/builds/"+otherBuild+"/data/get", fields{"key": "k"})
		}},
		{"artifacts of another build", forbidden, forbidden, func(j *servertest.Job) *servertest.Response {
			return j.Get("/v3/builds/" + otherBuild + "/artifacts/search?query=*")
		}},
		{"canceling another build", forbidden, forbidden, func(j *servertest.Job) *servertest.Response {
			return j.Post("/v3/builds/"+otherBuild+"/cancel", nil)
		}},
		{"registering an agent with its token", http.StatusUnauthorized, http.StatusUnauthorized, func(j *servertest.Job) *servertest.Response {
			return j.Post("/v3/register", fields{"name": "a"})
		}},
		{"the REST API", http.StatusUnauthorized, http.StatusUnauthorized, func(j *servertest.Job) *servertest.Response { return j.Get(app) }},
	}
}

// forkWorld gives the organization every credential that jobs can get, and pipelines that builds trigger.
func forkWorld(w *world) {
	w.Apply(`organizations: [{slug: acme, source_connections: [{host: github.com, token: ghp_hooks, clone_token: ghp_clone}]}]`)
	w.ada.Post("/v2/organizations/acme/clusters/"+servertest.AcmeClusterID+"/secrets", fields{"key": "DEPLOY", "value": "hunter2"}).Want(http.StatusCreated)
	w.pipeline("Also", "https://github.com/acme/also.git", fields{"provider_settings": fields{"build_pull_request_forks": true}})
	w.pipeline("Deploy", "https://github.com/acme/deploy.git", nil)
	w.ada.Patch(app, fields{
		"repository":        "https://ci:hunter2@github.com/acme/app.git",
		"provider_settings": fields{"build_pull_request_forks": true},
		"configuration":     "steps: [{command: make, key: make, retry: {manual: {permit_on_passed: true}}}, {trigger: also, key: also}, {trigger: deploy, key: deploy}]",
	}).Want(http.StatusOK)
}

func (w *world) build(pipeline string, n int) *servertest.Response {
	w.t.Helper()
	return w.ada.Get(fmt.Sprintf("%s/%s/builds/%d", pipelinesPath, pipeline, n)).Want(http.StatusOK)
}

func TestFork_ReachesNoCredentials(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		forkWorld(w)
		agent := w.Register(t, fields{"name": "a"})
		other := w.ada.Post(pipelinesPath+"/also/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).String("id")
		check := func(what string, fork bool, jobID string, during func(j *servertest.Job)) {
			t.Helper()
			job := agent.Acquire(jobID).Start()
			for _, r := range w.reachable(other) {
				want := r.trusted
				if fork {
					want = r.fork
				}
				if got := r.request(job); got.Status != want {
					t.Errorf("%s: %s: %d %s, want %d", what, r.name, got.Status, got.Body, want)
				}
			}
			for name, value := range job.Env {
				if fork && strings.Contains(value, "hunter2") {
					t.Errorf("%s: the environment has the password of the repository in %s", what, name)
				}
			}
			if repo := job.Env["BUILDKITE_REPO"]; !fork && !strings.Contains(repo, "hunter2") && strings.HasSuffix(repo, "/app.git") {
				t.Errorf("%s: the repository is %s, without its password", what, repo)
			}
			if during != nil {
				during(job)
			}
			job.Finish("0")
		}

		w.github("push", push("main", 1))
		check("a push", false, w.build("app", 1).String("jobs.0.id"), nil)

		w.github("pull_request", pullRequest("opened", "eve/app", 2, 2))
		pr := w.build("app", 2)
		check("a pull request", true, pr.String("jobs.0.id"), func(j *servertest.Job) {
			j.Post(j.Path("/pipelines"), fields{"uuid": core.NewID(), "pipeline": fields{
				"steps":  []any{fields{"command": "uploaded", "key": "uploaded", "notify": []any{fields{"webhook": "https://evil.test/step"}}}},
				"notify": []any{fields{"email": "spam@evil.test"}, fields{"webhook": "https://evil.test/build"}},
			}}).Want(http.StatusOK)
			j.Put("/v3/steps/make", fields{"build_id": pr.String("id"), "idempotency_uuid": core.NewID(), "attribute": "notify",
				"value": `[{"webhook": "https://evil.test/update"}]`}).Want(http.StatusForbidden)
		})
		uploaded := w.build("app", 2)
		for i := range uploaded.Len("jobs") {
			if at := fmt.Sprintf("jobs.%d", i); uploaded.String(at+".step_key") == "uploaded" {
				check("an uploaded step", true, uploaded.String(at+".id"), nil)
			}
		}
		w.wantNoNotify()

		retried := w.ada.Put(app+"/builds/2/jobs/"+pr.String("jobs.0.id")+"/retry", nil).Want(http.StatusOK)
		check("a retried job", true, retried.String("id"), nil)

		w.ada.Put(app+"/builds/2/rebuild", nil).Want(http.StatusOK)
		check("a rebuild", true, w.build("app", 3).String("jobs.0.id"), nil)

		w.ada.Post(app+"/builds", fields{"commit": "HEAD", "branch": "tea", "pull_request_id": 9, "pull_request_repository": "https://github.com/eve/app.git"}).Want(http.StatusCreated)
		check("a pull request over the API", true, w.build("app", 4).String("jobs.0.id"), nil)

		// It stays a build from a fork when the pipeline gets the fork's repository.
		w.ada.Patch(app, fields{"repository": "https://ci:hunter2@github.com/eve/app.git"}).Want(http.StatusOK)
		w.ada.Put(app+"/builds/4/rebuild", nil).Want(http.StatusOK)
		check("a rebuild after the pipeline moved", true, w.build("app", 5).String("jobs.0.id"), nil)
	})
}

// wantNoNotify checks that nothing is stored that asks to be notified of.
func (w *world) wantNoNotify() {
	w.t.Helper()
	err := w.DB.Read(w.t.Context(), func(q *db.Q) error {
		var lists, steps int
		err := q.QueryRow(`SELECT (SELECT COUNT(*) FROM build_notify), (SELECT COUNT(*) FROM step_details WHERE work LIKE '%evil.test%')`).Scan(&lists, &steps)
		if lists != 0 || steps != 0 {
			w.t.Errorf("%d builds and %d steps ask to notify strangers", lists, steps)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestFork_TriggersOnlyPipelinesThatBuildForks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		forkWorld(w)
		w.github("pull_request", pullRequest("opened", "eve/app", 2, 1))
		w.runDue()
		got := w.build("app", 1)
		servertest.WantAt(t, got, fields{"jobs.1.step_key": "also", "jobs.1.state": "running", "jobs.2.step_key": "deploy", "jobs.2.state": "failed",
			"jobs.2.detail": `A build from a fork can trigger only pipelines that build forks; build_pull_request_forks of the pipeline "deploy" is off`})
		if n := w.ada.Get(pipelinesPath + "/deploy/builds").Want(http.StatusOK).Len(""); n != 0 {
			t.Errorf("deploy has %d builds", n)
		}
		// The triggered build is from the fork too.
		job := w.Register(t, fields{"name": "a"}).Acquire(w.build("also", 1).String("jobs.0.id")).Start()
		job.Get(job.Path("/secrets?key=DEPLOY")).Want(http.StatusForbidden)
		job.Post(job.Path("/oidc/tokens"), fields{}).WantMessage(http.StatusForbidden, "Builds of pull requests from other repositories get no OpenID Connect tokens")
		// A build of the organization triggers both.
		w.github("push", push("main", 2))
		w.runDue()
		servertest.WantAt(t, w.build("app", 2), fields{"jobs.1.state": "running", "jobs.2.state": "running"})
	})
}
