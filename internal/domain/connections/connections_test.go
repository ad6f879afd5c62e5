package connections_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/connections"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const path = "/v2/organizations/acme/source-connections"

type fields = map[string]any

// appKey is the key of the app in these tests: generating one is slow.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func appPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())}))
}

// github behaves like GitHub: it knows the token good and the app 7 with the installation 9.
type github struct {
	*httptest.Server
	mu      sync.Mutex
	created []string      // the bodies of requests for tokens
	expire  time.Time     // of the next token
	wait    chan struct{} // closed: requests for tokens are answered
	fail    int           // status of requests for tokens; 0: they succeed
}

func startGitHub(t *testing.T) *github {
	g := &github{wait: make(chan struct{})}
	close(g.wait)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"login":"ada"}`)
	})
	mux.HandleFunc("GET /installation/repositories", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ghs_") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mux.HandleFunc("POST /app/installations/9/access_tokens", g.createToken)
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func (g *github) createToken(w http.ResponseWriter, r *http.Request) {
	proof, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.RS256})
	var claims jwt.Claims
	if err == nil {
		err = proof.Claims(&appKey().PublicKey, &claims)
	}
	if err != nil || claims.Issuer != "7" || claims.Expiry.Time().Sub(claims.IssuedAt.Time()) > 10*time.Minute {
		http.Error(w, `{"message":"A JSON web token could not be decoded"}`, http.StatusUnauthorized)
		return
	}
	var body json.RawMessage
	json.NewDecoder(r.Body).Decode(&body)
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	<-wait
	g.mu.Lock()
	defer g.mu.Unlock()
	g.created = append(g.created, string(body))
	if g.fail != 0 {
		w.WriteHeader(g.fail)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"token":"ghs_%d","expires_at":%q}`, len(g.created), g.expire.UTC().Format(time.RFC3339))
}

func (g *github) tokens() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.created)
}

// service returns the connections of a server, which other packages call.
func service(s *servertest.Server) *connections.Service {
	return connections.New(s.DB, s.Key, core.PublicURL(s.URL), s.Clock.Now, http.DefaultClient)
}

func TestConnections_AreManagedOverREST(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, host := s.As(t, servertest.Ada), startGitHub(t)
		made := ada.Post(path, fields{"host": "github.com", "api_url": host.URL, "token": "bad", "clone_token": "clone"}).Want(http.StatusCreated)
		servertest.WantAt(t, made, fields{"host": "github.com", "provider": "github", "api_url": host.URL, "authentication": "token", "app_id": nil, "has_clone_token": true})
		one := path + "/" + made.String("id")
		servertest.WantAt(t, ada.Post(one+"/test", nil).Want(http.StatusOK), fields{"ok": false, "message": "the source host refused: it does not accept the token; give a valid one"})
		patched := ada.Patch(one, fields{"token": "good", "clone_token": nil}).Want(http.StatusOK)
		servertest.WantAt(t, patched, fields{"has_clone_token": false})
		servertest.WantAt(t, ada.Post(one+"/test", nil).Want(http.StatusOK), fields{"ok": true, "message": "github.com accepts the credentials"})
		ada.Post(path, fields{"host": "github.com", "token": "x"}).WantFieldError("host", "has a connection already")
		for host, want := range map[string]string{
			"gitlab.com": "https://gitlab.com/api/v4", "bitbucket.org": "https://api.bitbucket.org/2.0",
			"bitbucket.acme.test": "https://bitbucket.acme.test/rest/api/1.0", "codeberg.org": "https://codeberg.org/api/v1", "git.acme.test": "https://git.acme.test/api/v3",
		} {
			servertest.WantEqual(t, host, ada.Post(path, fields{"host": host, "token": "x"}).Want(http.StatusCreated).String("api_url"), want)
		}
		all := ada.Get(path + "?per_page=2").Want(http.StatusOK)
		servertest.WantAt(t, all, fields{"0.host": "bitbucket.acme.test", "1.host": "bitbucket.org"})
		for _, secret := range []string{"good", "clone\""} {
			if strings.Contains(string(ada.Get(path).Want(http.StatusOK).Body), secret) {
				t.Errorf("the list shows %s", secret)
			}
		}
		ada.Delete(one).Want(http.StatusNoContent)
		ada.Get(one).Want(http.StatusNotFound)
	})
}

func TestConnections_RefuseWhatIsNotOne(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for name, c := range map[string]struct {
			body        fields
			field, text string
		}{
			"no host":        {fields{"token": "x"}, "host", "must be a name in lower case as in repository URLs, such as github.com"},
			"a URL as host":  {fields{"host": "https://github.com", "token": "x"}, "host", "must be a name in lower case as in repository URLs, such as github.com"},
			"no credentials": {fields{"host": "github.com"}, "token", "is required; or give app_id, installation_id and private_key of a GitHub App"},
			"two lines":      {fields{"host": "github.com", "token": "a\nb"}, "token", "must have at most 4096 visible ASCII characters"},
			"a provider":     {fields{"host": "github.com", "token": "x", "provider": "svn"}, "provider", `must be one of github, github_enterprise, gitlab, gitlab_ee, bitbucket, bitbucket_server, gitea, not "svn"`},
			"a password":     {fields{"host": "github.com", "token": "x", "api_url": "https://a:b@c.test"}, "api_url", "must be a URL without credentials, such as https://api.github.com"},
			"half an app":    {fields{"host": "github.com", "app_id": "7", "private_key": appPEM()}, "installation_id", "is required with a GitHub App"},
			"not a key":      {fields{"host": "github.com", "app_id": "7", "installation_id": "9", "private_key": "x"}, "private_key", "must be the PEM file with the app's private RSA key, as GitHub generates it"},
			"an app for all": {fields{"host": "gitlab.com", "app_id": "7", "installation_id": "9", "private_key": appPEM()}, "app_id", "is for GitHub only; give a token"},
			"both":           {fields{"host": "github.com", "token": "x", "app_id": "7", "installation_id": "9", "private_key": appPEM()}, "token", "cannot be combined with a GitHub App"},
		} {
			t.Run(name, func(t *testing.T) { ada.Post(path, c.body).WantFieldError(c.field, c.text) })
		}
		one := path + "/" + ada.Post(path, fields{"host": "github.com", "token": "x"}).Want(http.StatusCreated).String("id")
		// Stored credentials are not sent to another URL.
		ada.Patch(one, fields{"api_url": "https://evil.test"}).WantFieldError("api_url", "can be changed only together with token or private_key")
		ada.Patch(one, fields{"provider": "gitlab"}).WantFieldError("api_url", "can be changed only together with token or private_key")
	})
}

func TestAppToken_IsCreatedOnceForAllReplicas(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, host := s.As(t, servertest.Ada), startGitHub(t)
		host.expire = s.Clock.Now().Add(time.Hour)
		made := ada.Post(path, fields{"host": "github.com", "api_url": host.URL, "app_id": "7", "installation_id": "9", "private_key": appPEM()}).Want(http.StatusCreated)
		servertest.WantAt(t, made, fields{"authentication": "github_app", "app_id": "7", "installation_id": "9"})
		org := s.OrganizationID(t, "acme")
		const repository = "git@github.com:acme/app.git"
		first, second := service(s), service(s)
		host.wait = make(chan struct{})
		var calls sync.WaitGroup
		got := make([]string, 6)
		for i := range got {
			from := first
			if i%2 == 1 {
				from = second
			}
			calls.Go(func() {
				token, err := from.TokenFor(context.Background(), org, repository)
				if err != nil {
					t.Error(err)
				}
				got[i] = token
			})
		}
		close(host.wait)
		calls.Wait()
		for _, token := range got {
			servertest.WantEqual(t, "token", token, "ghs_1")
		}
		token := func(want string) {
			t.Helper()
			got, err := second.TokenFor(t.Context(), org, repository)
			if err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		s.Clock.Advance(45 * time.Minute)
		token("ghs_1")
		host.expire = s.Clock.Now().Add(time.Hour)
		s.Clock.Advance(6 * time.Minute) // it ends in nine minutes
		token("ghs_2")
		servertest.WantAt(t, ada.Post(path+"/"+made.String("id")+"/test", nil).Want(http.StatusOK), fields{"ok": true})

		// Jobs get a token that reads their repository only.
		clone, err := first.CloneToken(t.Context(), org, "https://github.com/acme/app.git")
		if err != nil || clone != "ghs_3" || host.created[2] != `{"permissions":{"contents":"read"},"repositories":["app"]}` {
			t.Errorf("got %q, %v, requested %q", clone, err, host.created)
		}
		wantNoClearText(t, s, "ghs_")
		// New credentials end the use of old tokens.
		ada.Patch(path+"/"+made.String("id"), fields{"private_key": appPEM(), "clone_token": "x"}).Want(http.StatusOK)
		token("ghs_4")
	})
}

func TestAppToken_IsTriedAgainAfterAFailure(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		host := startGitHub(t)
		host.expire, host.fail = s.Clock.Now().Add(time.Hour), http.StatusBadGateway
		s.As(t, servertest.Ada).Post(path, fields{"host": "github.com", "api_url": host.URL, "app_id": "7", "installation_id": "9", "private_key": appPEM()}).Want(http.StatusCreated)
		org := s.OrganizationID(t, "acme")
		if _, err := service(s).TokenFor(t.Context(), org, "https://github.com/acme/app"); err == nil || !strings.Contains(err.Error(), "status 502") {
			t.Errorf("got %v", err)
		}
		host.fail = 0
		if token, err := service(s).TokenFor(t.Context(), org, "https://github.com/acme/app"); err != nil || token != "ghs_2" {
			t.Errorf("got %q, %v", token, err)
		}
		// A replica that died while it created one delays the next for its lease only.
		s.Clock.Advance(2 * time.Hour)
		host.expire = s.Clock.Now().Add(time.Hour)
		err := s.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE source_connection_tokens SET lease = 'dead', leased_until = $1`, db.Micros(s.Clock.Now().Add(20*time.Second)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Clock.Advance(21 * time.Second)
		if token, err := service(s).TokenFor(t.Context(), org, "https://github.com/acme/app"); err != nil || token != "ghs_3" || host.tokens() != 3 {
			t.Errorf("got %q, %v", token, err)
		}
	})
}

func TestTokenFor_IsOfTheOrganization(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.As(t, servertest.Ada).Post(path, fields{"host": "github.com", "token": "own"}).Want(http.StatusCreated)
		token, err := service(s).TokenFor(t.Context(), s.OrganizationID(t, "acme"), "ssh://git@ssh.github.com:443/acme/app.git")
		if err != nil || token != "own" {
			t.Errorf("got %q, %v", token, err)
		}
		for _, c := range [][2]string{{"rival", "https://github.com/acme/app"}, {"acme", "https://gitlab.com/acme/app"}, {"acme", "/srv/app.git"}} {
			if token, err := service(s).TokenFor(t.Context(), s.OrganizationID(t, c[0]), c[1]); core.KindOf(err) != core.NotFound {
				t.Errorf("%s: got %q, %v", c, token, err)
			}
		}
		// The server's own token is not for jobs.
		if _, err := service(s).CloneToken(t.Context(), s.OrganizationID(t, "acme"), "https://github.com/acme/app"); core.KindOf(err) != core.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

func wantNoClearText(t *testing.T, s *servertest.Server, secret string) {
	t.Helper()
	err := s.DB.Read(t.Context(), func(q *db.Q) error {
		rows, err := db.Strings(q, `SELECT COALESCE(token, '') FROM source_connection_tokens UNION ALL SELECT token || COALESCE(private_key, '') FROM source_connections`)
		if strings.Contains(strings.Join(rows, "\n"), secret) || strings.Contains(strings.Join(rows, "\n"), "PRIVATE KEY") {
			t.Errorf("stored in clear: %q", rows)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
