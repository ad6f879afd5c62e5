package pipelines_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

// github is a fake source host with the repository acme/app and its webhooks.
type github struct {
	*httptest.Server
	hooks []string
}

func startGitHub(t *testing.T) *github {
	g := &github{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var hook struct {
			Name   string
			Config struct{ URL string }
		}
		json.NewDecoder(r.Body).Decode(&hook)
		switch {
		case r.Header.Get("Authorization") != "Bearer ghs_secret":
			http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
		case r.Method != http.MethodPost || r.URL.Path != "/api/v3/repos/acme/app/hooks":
			http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
		case len(g.hooks) > 0:
			http.Error(w, `{"message":"Validation Failed","errors":[{"message":"Hook already exists on this repository"}]}`, http.StatusUnprocessableEntity)
		default:
			g.hooks = append(g.hooks, hook.Config.URL)
			w.WriteHeader(http.StatusCreated)
			w.Write([]byte(`{"id":1}`))
		}
	}))
	t.Cleanup(g.Close)
	return g
}

func connect(s *servertest.Server, host, apiURL, token string) []string {
	return s.Apply("organizations:\n  - slug: acme\n    source_connections: [{host: " + host + ", api_url: '" + apiURL + "', token: " + token + "}]\n")
}

func TestWebhook_IsCreatedOnTheConnectedHost(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		host := startGitHub(t)
		connect(s, "code.example.test", host.URL+"/api/v3", "ghs_secret")
		ada := s.As(t, servertest.Ada)
		created := ada.Post(path, yaml("App", map[string]any{"repository": "git@code.example.test:acme/app.git"})).Want(http.StatusCreated)
		wantEqual(t, "provider of a connected host", created.At("provider.id"), "github_enterprise")

		got := ada.Post(path+"/app/webhook", nil).Want(http.StatusCreated)
		wantEqual(t, "answer", got.At(""), created.At(""))
		wantEqual(t, "hooks", any(host.hooks), any([]string{created.String("provider.webhook_url")}))

		again := ada.Post(path+"/app/webhook", nil).Want(http.StatusUnprocessableEntity)
		wantEqual(t, "message", again.At("message"), "Webhooks could not be created for this repository: the webhook already exists on this repository")
	})
}

func TestWebhook_ReportsWhyItCouldNotBeCreated(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		host := startGitHub(t)
		refused := func(repository, text string) {
			t.Helper()
			ada.Patch(hello, map[string]any{"repository": repository}).Want(http.StatusOK)
			got := ada.Post(hello+"/webhook", nil).Want(http.StatusUnprocessableEntity)
			if !strings.Contains(got.String("message"), text) {
				t.Errorf("%s: %s", repository, got.Body)
			}
		}
		unsupported := "Auto-creating webhooks is not supported for this repository"
		refused("https://github.com/acme/app", unsupported)
		refused("/srv/git/app.git", unsupported)
		refused("https://gitlab.com/acme/app", unsupported)

		connect(s, "github.com", host.URL+"/api/v3", "ghs_secret")
		refused("https://github.com/acme/other", "Webhooks could not be created for this repository: the source host refused: there is no repository acme/other")
		connect(s, "github.com", host.URL+"/api/v3", "ghs_wrong")
		refused("https://github.com/acme/app", "does not accept the token")
		connect(s, "github.com", "http://10.0.0.1/api/v3", "ghs_secret")
		refused("https://github.com/acme/app", "is not allowed")
		host.Close()
		connect(s, "github.com", host.URL+"/api/v3", "ghs_secret")
		refused("https://github.com/acme/app", "Webhooks could not be created")

		// Another organization cannot use the connection.
		cy := s.As(t, servertest.Cy)
		cy.Post(rivalPath, without(yaml("App", map[string]any{"repository": "https://github.com/acme/app"}), "cluster_id")).Want(http.StatusCreated)
		if got := cy.Post(rivalPath+"/app/webhook", nil).Want(http.StatusUnprocessableEntity).String("message"); !strings.Contains(got, unsupported) {
			t.Errorf("message %q", got)
		}
		ada.Post(hello+"/archive", nil).Want(http.StatusOK)
		ada.Post(hello+"/webhook", nil).WantMessage(http.StatusUnprocessableEntity, "This pipeline is archived, so it cannot be changed; unarchive it first")
	})
}

func TestSourceWebhooks_AreSwitchedOffAndOn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		ada.Patch(hello, map[string]any{"repository": "https://github.com/acme/hello"}).Want(http.StatusOK)
		one := hello + "/source-webhooks"
		on := map[string]any{"url": s.URL + one, "enabled": true, "disabled_at": nil, "disabled_by": nil}
		off := map[string]any{"url": s.URL + one, "enabled": false, "disabled_at": s.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "disabled_by": "Bo"}
		want := func(r *servertest.Response, state map[string]any) {
			t.Helper()
			wantEqual(t, "state", r.Want(http.StatusOK).At(""), any(state))
		}
		want(ada.Get(one), on)
		want(ada.Put(one, nil), on)
		want(bo.Delete(one), off)
		s.Clock.Advance(1e9)
		want(ada.Delete(one), off)
		want(ada.Get(one), off)
		want(ada.Put(one, nil), on)
		want(ada.Get(one), on)

		ada.Post(hello+"/archive", nil).Want(http.StatusOK)
		want(ada.Get(one), on)
		ada.Delete(one).Want(http.StatusUnprocessableEntity)
		ada.Put(one, nil).Want(http.StatusUnprocessableEntity)
	})
}

func TestSourceWebhooks_AreThereForGitHubInEnrolledOrganizations(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		status := func(want int) {
			t.Helper()
			ada.Get(hello + "/source-webhooks").Want(want)
			ada.Put(hello+"/source-webhooks", nil).Want(want)
			ada.Delete(hello + "/source-webhooks").Want(want)
		}
		for repository, want := range map[string]int{
			"https://git.example.test/acme/hello": http.StatusNotFound,
			"https://gitlab.com/acme/hello":       http.StatusNotFound,
			"git@github.com:acme/hello.git":       http.StatusOK,
			"https://github.acme.test/acme/hello": http.StatusOK,
		} {
			ada.Patch(hello, map[string]any{"repository": repository}).Want(http.StatusOK)
			status(want)
		}
		ada.Patch(hello, map[string]any{"repository": "git@github.com:acme/hello.git"}).Want(http.StatusOK)
		s.Apply("organizations:\n  - slug: acme\n    features: {expanded_webhook_triggers: false}\n")
		status(http.StatusNotFound)
	})
}

func TestSourceWebhooks_NeedFullAccess(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		switchTeamsOn(t, s, false, false)
		s.As(t, servertest.Ada).Post(path, yaml("App", map[string]any{
			"repository": "https://github.com/acme/app", "teams": map[string]string{redID: "build_and_read"},
		})).Want(http.StatusCreated)
		bo := s.As(t, servertest.Bo)
		bo.Get(path+"/app/source-webhooks").WantMessage(http.StatusForbidden, "Forbidden")
		bo.Put(path+"/app/source-webhooks", nil).WantMessage(http.StatusForbidden, "Forbidden")
		bo.Delete(path+"/app/source-webhooks").WantMessage(http.StatusForbidden, "Forbidden")
	})
}
