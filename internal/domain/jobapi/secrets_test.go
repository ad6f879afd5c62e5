package jobapi_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

const secrets = "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID + "/secrets"

func TestSecrets_AreReadUnderTheirPolicy(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		open := w.Ada.Post(secrets, fields{"key": "OPEN", "value": " correct\nhorse "}).Want(http.StatusCreated)
		w.Ada.Post(secrets, fields{"key": "MINE", "value": "v", "policy": "- pipeline_slug: hello\n  build_branch: main\n  build_source: api\n  build_creator: ada@acme.test\n  cluster_queue_key: default\n"}).Want(http.StatusCreated)
		w.Ada.Post(secrets, fields{"key": "OTHERS", "value": "v", "policy": "- pipeline_slug: deploy\n"}).Want(http.StatusCreated)
		got := w.Get(w.Path("/secrets?key=OPEN")).Want(http.StatusOK)
		servertest.WantAt(t, got, fields{"key": "OPEN", "value": " correct\nhorse ", "uuid": open.String("id")})
		servertest.WantEqual(t, "Cache-Control", got.Header.Get("Cache-Control"), "no-store")
		servertest.WantEqual(t, "last_read_at", w.Ada.Get(open.String("url")).String("last_read_at"), w.Clock.Now().Format("2006-01-02T15:04:05.000Z"))
		w.Get(w.Path("/secrets?key=MINE")).Want(http.StatusOK)
		w.Get(w.Path("/secrets?key=OTHERS")).WantMessage(http.StatusForbidden, `The policy of the secret "OTHERS" does not let this job read it`)
		w.Get(w.Path("/secrets?key=NONE")).WantMessage(http.StatusNotFound, `The cluster of this job has no secret with the key "NONE"`)
		w.Get(w.Path("/secrets")).WantMessage(http.StatusBadRequest, "The query parameter key is required")
	})
}

func TestRepositoryToken_IsForThePipelinesOwnRepository(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		token := func(repository string) *response {
			return w.Post(w.Path("/repository_access_token"), fields{"repo_url": repository})
		}
		const own = "https://git.example.test/acme/hello.git"
		token(own).WantMessage(http.StatusNotFound, "The organization has no token for jobs to clone from git.example.test with; its source connection can have a clone_token")
		w.Apply(`organizations: [{slug: acme, source_connections: [{host: git.example.test, token: ghp_hooks}]}]`)
		token(own).Want(http.StatusNotFound)
		if lines := w.Apply(`organizations: [{slug: acme, source_connections: [{host: git.example.test, clone_token: ghp_clone}]}]`); len(lines) != 1 {
			t.Errorf("applied %q", lines)
		}
		if lines := w.Apply(`organizations: [{slug: acme, source_connections: [{host: git.example.test, clone_token: ghp_clone}]}]`); len(lines) != 0 {
			t.Errorf("applied again %q", lines)
		}
		for _, url := range []string{own, "https://git.example.test/acme/hello"} {
			servertest.WantAt(t, token(url).Want(http.StatusOK), fields{"token": "ghp_clone"})
		}
		token("https://git.example.test/acme/other.git").WantMessage(http.StatusForbidden, "There is a token for the pipeline's own repository only")
		for _, url := range []string{"", "git@git.example.test:acme/hello.git", "http://git.example.test/acme/hello.git", "https://"} {
			if resp := token(url); resp.Status != http.StatusUnprocessableEntity && resp.Status != http.StatusForbidden {
				t.Errorf("%q: %d", url, resp.Status)
			}
		}
	})
}

func TestRepositoryToken_IsNotForPullRequestsOfStrangers(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.Apply(`organizations: [{slug: acme, source_connections: [{host: git.example.test, token: ghp_hooks, clone_token: ghp_clone}]}]`)
		for repository, want := range map[string]int{
			"https://git.example.test/stranger/hello.git": http.StatusForbidden,
			"git@git.example.test:acme/hello.git":         http.StatusOK,
		} {
			made := w.Ada.Post(servertest.HelloPath+"/builds", fields{"commit": "HEAD", "branch": "x", "pull_request_id": 1, "pull_request_repository": repository}).Want(http.StatusCreated)
			job := w.StartJob(made.String("jobs.0.id"))
			job.Post(job.Path("/repository_access_token"), fields{"repo_url": "https://git.example.test/acme/hello.git"}).Want(want)
		}
	})
}
