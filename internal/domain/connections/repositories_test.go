package connections_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// startGitLab starts a server that speaks the project list of GitLab, and counts its requests.
func startGitLab(t *testing.T, requests *atomic.Int64) *httptest.Server {
	t.Helper()
	projects := []string{"acme/app", "acme/shop", "ops/app-tools"}
	g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Private-Token") != "good" || r.URL.Path != "/api/v4/projects" {
			http.Error(w, `{"message":"401 Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		var found []string
		for _, p := range projects {
			if strings.Contains(p, r.URL.Query().Get("search")) {
				found = append(found, fmt.Sprintf(`{"path_with_namespace":%q,"name":%q,"default_branch":"trunk","http_url_to_repo":"https://gitlab.com/%s.git","ssh_url_to_repo":"git@gitlab.com:%s.git"}`, p, p, p, p))
			}
		}
		w.Header().Set("X-Next-Page", "2")
		fmt.Fprint(w, "["+strings.Join(found, ",")+"]")
	}))
	t.Cleanup(g.Close)
	return g
}

func TestRepositories_AreListedForPeopleWhoCreatePipelines(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		var requests atomic.Int64
		host := startGitLab(t, &requests)
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		one := path + "/" + ada.Post(path, fields{"host": "gitlab.com", "api_url": host.URL + "/api/v4", "token": "good"}).Want(http.StatusCreated).String("id")
		servertest.WantAt(t, bo.Get("/v2/organizations/acme/source-hosts").Want(http.StatusOK), fields{"0.host": "gitlab.com", "0.provider": "gitlab", "0.clones": false})

		servertest.WantAt(t, bo.Get(one+"/repositories").Want(http.StatusOK), fields{
			"total": 3, "complete": false, "repositories.0.path": "acme/app", "repositories.0.default_branch": "trunk", "repositories.0.private": true,
			"repositories.0.https_url": "https://gitlab.com/acme/app.git", "repositories.0.ssh_url": "git@gitlab.com:acme/app.git",
		})
		// The first list was not complete, so the host searches; both answers are kept for a minute.
		for range 3 {
			servertest.WantAt(t, bo.Get(one+"/repositories?search=shop").Want(http.StatusOK), fields{"total": 1, "repositories.0.path": "acme/shop"})
			bo.Get(one + "/repositories").Want(http.StatusOK)
		}
		servertest.WantEqual(t, "requests", requests.Load(), int64(2))
		s.Clock.Advance(2 * time.Minute)
		bo.Get(one + "/repositories").Want(http.StatusOK)
		servertest.WantEqual(t, "requests after a minute", requests.Load(), int64(3))
		// Other credentials are asked at once.
		ada.Patch(one, fields{"token": "bad"}).Want(http.StatusOK)
		refused := bo.Get(one + "/repositories").Want(http.StatusUnprocessableEntity)
		servertest.WantEqual(t, "message", refused.String("message"), "The repositories of gitlab.com could not be listed: the source host refused: it does not accept the token; give a valid one")
		bo.Get(one + "/repositories?search=" + strings.Repeat("x", 201)).Want(http.StatusBadRequest)

		s.As(t, servertest.Cy).Get(one + "/repositories").Want(http.StatusNotFound)
		s.Apply(`organizations: [{slug: acme, features: {teams: true}}]`)
		bo.Get(one + "/repositories").Want(http.StatusForbidden)
		bo.Get("/v2/organizations/acme/source-hosts").Want(http.StatusForbidden)
	})
}

func TestRepositories_AreFetchedOnceForManyVisitorsAndFromNoPrivateAddress(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	var requests atomic.Int64
	host, ada := startGitLab(t, &requests), s.As(t, servertest.Ada)
	one := path + "/" + ada.Post(path, fields{"host": "gitlab.com", "api_url": host.URL + "/api/v4", "token": "good"}).Want(http.StatusCreated).String("id")
	var visitors sync.WaitGroup
	for range 8 {
		visitors.Go(func() { s.As(t, servertest.Bo).Get(one + "/repositories?search=app") })
	}
	visitors.Wait()
	servertest.WantEqual(t, "requests", requests.Load(), int64(1))

	one = path + "/" + ada.Post(path, fields{"host": "github.com", "api_url": "http://10.0.0.1/api/v3", "token": "x"}).Want(http.StatusCreated).String("id")
	if got := ada.Get(one + "/repositories").Want(http.StatusUnprocessableEntity).String("message"); !strings.Contains(got, "is not allowed") {
		t.Errorf("message %q", got)
	}
}
