package pipelines_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
)

// A repository URL as it is given and as it is shown.
const (
	givenURL = "https://ci:hunter2@git.example.test/acme/hello.git"
	shownURL = "https://git.example.test/acme/hello.git"
)

// checkoutURL starts a build of hello and returns the repository that an agent gets for it.
func checkoutURL(t *testing.T, s *servertest.Server) string {
	t.Helper()
	build := s.As(t, servertest.Ada).Post(hello+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	job := s.Register(t, nil).Acquire(build.String("jobs.0.id"))
	wantEqual(t, "the published name", job.Env["BUILDKITE_REPO"], job.Env["SERVICE_REPO"])
	return job.Env["SERVICE_REPO"]
}

// stored returns all rows of pipelines as text.
func stored(t *testing.T, s *servertest.Server) string {
	t.Helper()
	var all []string
	err := s.DB.Read(t.Context(), func(q *db.Q) (err error) {
		all, err = db.All(q, func(scan db.Scan) (string, error) {
			var row [4]string
			err := scan(&row[0], db.ToText(&row[1]), &row[2], &row[3])
			return fmt.Sprint(row), err
		}, `SELECT repository, sealed_repository_url, repository_folded, repository_host FROM pipelines`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

func TestRepository_CredentialsAreInNoResponse(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		created := ada.Post(path, yaml("Secretive", map[string]any{"repository": "https://ci:hunter2@git.example.test/acme/other.git"})).Want(http.StatusCreated)
		wantEqual(t, "repository", created.At("repository"), "https://git.example.test/acme/other.git")
		patched := ada.Patch(hello, map[string]any{"repository": givenURL, "configuration": `steps: [{command: "echo ${SERVICE_REPO}", if: 'pipeline.repository !~ /hunt/'}]`}).Want(http.StatusOK)
		wantEqual(t, "repository", patched.At("repository"), shownURL)
		build := ada.Post(hello+"/builds", map[string]any{"commit": "HEAD", "branch": "main", "pull_request_id": 7, "pull_request_repository": "https://fork:hunter2@git.example.test/bo/hello.git"}).Want(http.StatusCreated)
		job := build.String("jobs.0.id")
		wantEqual(t, "pull_request.repository", build.At("pull_request.repository"), "https://git.example.test/bo/hello.git")
		wantEqual(t, "command", build.At("jobs.0.command"), "echo "+shownURL)
		for _, at := range []string{
			path, hello, hello + "/builds", hello + "/builds/1", "/v2/builds", "/v2/organizations/acme/builds", hello + "/builds/1/jobs",
			hello + "/builds/1/jobs/" + job + "/env", hello + "/builds/1/jobs/" + job + "/env.txt", hello + "/builds/1/jobs/" + job + "/explain",
		} {
			if body := string(ada.Get(at).Want(http.StatusOK).Body); strings.Contains(body, "hunter2") {
				t.Errorf("GET %s shows the password", at)
			}
		}
		if rows := stored(t, s); strings.Contains(rows, "hunter2") {
			t.Errorf("the database holds the password in clear:\n%s", rows)
		}
		wantEqual(t, "what an agent clones for a fork", s.Register(t, nil).Acquire(job).Env["BUILDKITE_REPO"], shownURL)
		own := ada.Post(hello+"/builds", map[string]any{"commit": "HEAD", "branch": "main", "pull_request_id": 8}).Want(http.StatusCreated)
		wantEqual(t, "what an agent clones", s.Register(t, nil).Acquire(own.String("jobs.0.id")).Env["BUILDKITE_REPO"], givenURL)
	})
}

func TestRepository_KeepsCredentialsOfTheURLThatIsShown(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, step := range []struct{ sent, want string }{
			{shownURL, shownURL}, // no credentials stored
			{givenURL, givenURL},
			{shownURL, givenURL}, // sent back as it was read
			{"https://git.example.test/acme/hello", "https://git.example.test/acme/hello"},
			{shownURL, shownURL}, // the credentials do not come back
			{givenURL, givenURL},
			{"https://ci:hunter3@git.example.test/acme/hello.git", "https://ci:hunter3@git.example.test/acme/hello.git"},
			{"https://@git.example.test/acme/hello.git", shownURL}, // removed
		} {
			ada.Patch(hello, map[string]any{"repository": step.sent}).Want(http.StatusOK)
			if got := checkoutURL(t, s); got != step.want {
				t.Errorf("after %s an agent clones %s, want %s", step.sent, got, step.want)
			}
		}
		ada.Patch(hello, map[string]any{"repository": givenURL}).Want(http.StatusOK)
		ada.Patch(hello, map[string]any{"description": "changed"}).Want(http.StatusOK)
		ada.Post(hello+"/archive", nil).Want(http.StatusOK)
		ada.Post(hello+"/unarchive", nil).Want(http.StatusOK)
		wantEqual(t, "after other changes", checkoutURL(t, s), givenURL)
		ada.Patch(hello, map[string]any{"repository": "https://ci:hun/ter2@git.example.test/hello"}).WantFieldError("repository", "is not a valid URL")
	})
}

func TestRepository_FilterDoesNotKnowCredentials(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Patch(hello, map[string]any{"repository": givenURL}).Want(http.StatusOK)
		for asked, want := range map[string]string{"hunter2": "", "ci:": "", shownURL: "hello", givenURL: "hello"} {
			wantEqual(t, asked, slugs(t, ada.Get(path+"?repository="+url.QueryEscape(asked))), want)
		}
	})
}

func TestApply_OfARepositoryWithCredentialsChangesItOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		file := pipelinesOf("slug: hello", "repository: "+givenURL)
		wantLines(t, s.Apply(file), "changed pipeline acme/hello")
		wantLines(t, s.Apply(file))
		wantEqual(t, "what an agent clones", checkoutURL(t, s), givenURL)
		wantLines(t, s.Apply(pipelinesOf("slug: hello", "repository: https://ci:hunter3@git.example.test/acme/hello.git")), "changed pipeline acme/hello")
		wantLines(t, s.Apply(pipelinesOf("slug: hello", "repository: "+shownURL)))
		wantEqual(t, "repository", s.As(t, servertest.Ada).Get(hello).At("repository"), shownURL)
	})
}

// Rows from before encryption contain the URLs as they were given.
func TestSealCredentials_SealsOlderRows(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(path, yaml("Over SSH", map[string]any{"repository": "git@git.example.test:acme/ssh.git"})).Want(http.StatusCreated)
		err := s.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE pipelines SET repository = $1, repository_folded = $1, sealed_repository_url = NULL WHERE slug = 'hello'`, givenURL)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := pipelines.SealCredentials(t.Context(), s.DB, s.Key); err != nil {
				t.Fatal(err)
			}
			if rows := stored(t, s); strings.Contains(rows, "hunter2") {
				t.Errorf("the database holds the password in clear:\n%s", rows)
			}
		}
		wantEqual(t, "repository", ada.Get(hello).At("repository"), shownURL)
		wantEqual(t, "found", slugs(t, ada.Get(path+"?repository=hello.git")), "hello")
		wantEqual(t, "other pipelines", ada.Get(path+"/over-ssh").At("repository"), "git@git.example.test:acme/ssh.git")
		wantEqual(t, "what an agent clones", checkoutURL(t, s), givenURL)
	})
}
