package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

// signIn lets robot act for ada, and returns its tokens.
func (w *fixture) signIn() (access, refresh string) {
	w.T.Helper()
	d := w.start("robot", "client_secret", robotSecret)
	w.approve(ada, d, w.OrgID)
	r := w.poll("robot", d, "client_secret", robotSecret).Want(200)
	return r.String("access_token"), r.String("refresh_token")
}

func (w *fixture) refresh(token string, more ...string) *servertest.Response {
	w.T.Helper()
	return w.post("/oauth/token", append([]string{"grant_type", "refresh_token", "client_id", "robot", "client_secret", robotSecret, "refresh_token", token}, more...)...)
}

func TestRefresh_ReplacesTheTokens(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		access, refresh := w.signIn()
		w.Clock.Advance(2 * time.Hour)
		w.As(t, access).Get("/v2/user").Want(401)
		r := w.refresh(refresh).Want(200)
		if r.String("refresh_token") == refresh || r.String("access_token") == access || r.At("expires_in") != 3600.0 || r.String("scope") != "read_builds read_user" {
			t.Errorf("got %s", r.Body)
		}
		api := w.As(t, r.String("access_token"))
		api.Get("/v2/user").Want(200)
		api.Get("/v2/organizations/acme/builds").Want(200)
		api.Get("/v2/organizations/rival/builds").Want(404)
		w.Clock.Advance(100 * 24 * time.Hour)
		r = w.refresh(r.String("refresh_token")).Want(200)
		w.Clock.Advance(100 * 24 * time.Hour) // each lives on its own
		w.refresh(r.String("refresh_token")).Want(200)
	})
}

func TestRefresh_TwiceWithOneTokenEndsTheGrant(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		_, other := w.signIn()
		_, first := w.signIn()
		r := w.refresh(first).Want(200)
		access, second := r.String("access_token"), r.String("refresh_token")
		w.As(t, access).Get("/v2/user").Want(200)
		wantError(t, "the used one", w.refresh(first), 400, "invalid_grant")
		w.As(t, access).Get("/v2/user").Want(401)
		wantError(t, "its successor", w.refresh(second), 400, "invalid_grant")
		w.refresh(other).Want(200) // what was approved another time goes on
	})
}

func TestRefresh_GivesOneAnswerWhenManyAsk(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		_, refresh := w.signIn()
		var given atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if r := w.refresh(refresh); r.Status == 200 {
					given.Add(1)
				} else if r.String("error") != "invalid_grant" {
					t.Errorf("another got %s", r.Body)
				}
			})
		}
		all.Wait()
		var left int
		w.QueryRow(`SELECT (SELECT COUNT(*) FROM oauth_grants) + (SELECT COUNT(*) FROM oauth_refresh_tokens) + (SELECT COUNT(*) FROM access_tokens WHERE grant_id IS NOT NULL)`, &left)
		if given.Load() != 1 || left != 0 {
			t.Errorf("given %d times, and %d rows are left of the grant", given.Load(), left)
		}
	})
}

func TestRefresh_Refuses(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		access, refresh := w.signIn()
		w.Apply(`organizations: [{slug: acme, oauth_applications: [{client_id: tool, refresh_tokens: true}]}]`)
		ask := func(pairs ...string) *servertest.Response {
			return w.post("/oauth/token", append([]string{"grant_type", "refresh_token"}, pairs...)...)
		}
		wantError(t, "no token", w.refresh(""), 400, "invalid_request")
		wantError(t, "an unknown token", w.refresh("svcrt_x"), 400, "invalid_grant")
		wantError(t, "an access token", w.refresh(access), 400, "invalid_grant")
		wantError(t, "no secret", ask("client_id", "robot", "refresh_token", refresh), 401, "invalid_client")
		wantError(t, "another application", ask("client_id", "tool", "refresh_token", refresh), 400, "invalid_grant")
		wantError(t, "an application without", ask("client_id", "narrow", "refresh_token", refresh), 400, "unauthorized_client")
		wantError(t, "more scopes", w.refresh(refresh, "scope", "read_builds write_builds"), 400, "invalid_scope")
		wantError(t, "an unknown scope", w.refresh(refresh, "scope", "fly"), 400, "invalid_scope")
		w.Clock.Advance(180 * 24 * time.Hour)
		wantError(t, "left alone for long", w.refresh(refresh), 400, "invalid_grant")
	})
}

func TestRefresh_GivesFewerScopesToOneAccessToken(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		_, refresh := w.signIn()
		r := w.refresh(refresh, "scope", "read_user").Want(200)
		if r.String("scope") != "read_user" {
			t.Errorf("got %s", r.Body)
		}
		w.As(t, r.String("access_token")).Get("/v2/organizations/acme/builds").Want(403)
		r = w.refresh(r.String("refresh_token")).Want(200)
		if r.String("scope") != "read_builds read_user" {
			t.Errorf("the next one got %s", r.Body)
		}
		w.Apply(`organizations: [{slug: acme, oauth_applications: [{client_id: robot, scopes: [read_user]}]}]`)
		if r = w.refresh(r.String("refresh_token")).Want(200); r.String("scope") != "read_user" {
			t.Errorf("an application that may ask for less got %s", r.Body)
		}
		w.Apply(`organizations: [{slug: acme, oauth_applications: [{client_id: robot, scopes: [read_suites]}]}]`)
		wantError(t, "nothing left", w.refresh(r.String("refresh_token")), 400, "invalid_grant")
	})
}

func TestRefresh_EndsOlderAccessTokensWithinTheHour(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		w.Apply(`organizations: [{slug: acme, oauth_applications: [{client_id: robot, token_expires_in: 0}]}]`)
		access, refresh := w.signIn()
		w.As(t, access).Get("/v2/user").Want(200)
		r := w.refresh(refresh).Want(200)
		w.Clock.Advance(59 * time.Minute)
		w.As(t, access).Get("/v2/user").Want(200)
		w.Clock.Advance(time.Minute)
		w.As(t, access).Get("/v2/user").Want(401)
		w.As(t, r.String("access_token")).Get("/v2/user").Want(200)
	})
}

func TestRefresh_WaitsWhileTheOrganizationIsSuspended(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		_, refresh := w.signIn()
		w.Apply(`organizations: [{slug: acme, suspended: true}]`)
		wantError(t, "suspended", w.refresh(refresh), 503, "server_error")
		w.Apply(`organizations: [{slug: acme, suspended: false}]`)
		w.refresh(refresh).Want(200) // it was not used up
	})
}

const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

// authorize has ada approve a request for an authorization code, and returns the code.
func (w *fixture) authorize(clientID, redirectURI string) string {
	w.T.Helper()
	challenge := sha256.Sum256([]byte(verifier))
	to, err := w.pages.ApproveAuthorization(w.T.Context(), ada, form(
		"response_type", "code", "client_id", clientID, "redirect_uri", redirectURI, "scope", "read_user", "state", "x",
		"code_challenge", base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method", "S256"), w.OrgID)
	if err != nil {
		w.T.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil || u.Query().Get("state") != "x" {
		w.T.Fatalf("sent to %s, %v", to, err)
	}
	return u.Query().Get("code")
}

// exchange exchanges a code for a token, with some parameters changed.
func (w *fixture) exchange(code string, change ...string) *servertest.Response {
	w.T.Helper()
	return w.post("/oauth/token", append([]string{
		"grant_type", "authorization_code", "client_id", "tool", "code", code, "redirect_uri", local, "code_verifier", verifier,
	}, change...)...)
}

const local = "http://127.0.0.1:49152/callback"

func TestExchange_GivesATokenForACodeAndItsVerifier(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		r := w.exchange(w.authorize("tool", local)).Want(200)
		if r.String("scope") != "read_user" || r.Has("expires_in") || r.Has("refresh_token") || r.String("token_type") != "Bearer" {
			t.Errorf("got %s", r.Body)
		}
		w.As(t, r.String("access_token")).Get("/v2/user").Want(200)
		r = w.exchange(w.authorize("robot", local), "client_id", "robot", "client_secret", robotSecret).Want(200)
		w.refresh(r.String("refresh_token")).Want(200)
	})
}

func TestExchange_Refuses(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		code := w.authorize("tool", local)
		for name, c := range map[string]struct {
			change []string
			status int
			code   string
		}{
			"another verifier":     {[]string{"code_verifier", strings.Repeat("a", 43)}, 400, "invalid_grant"},
			"the challenge":        {[]string{"code_verifier", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, 400, "invalid_grant"},
			"another port":         {[]string{"redirect_uri", "http://127.0.0.1:49153/callback"}, 400, "invalid_grant"},
			"another application":  {[]string{"client_id", "narrow"}, 400, "invalid_grant"},
			"an unknown client":    {[]string{"client_id", "nobody"}, 401, "invalid_client"},
			"an unknown code":      {[]string{"code", "svcac_x"}, 400, "invalid_grant"},
			"a confidential one's": {[]string{"client_id", "robot"}, 401, "invalid_client"},
		} {
			wantError(t, name, w.exchange(code, c.change...), c.status, c.code)
		}
		for _, name := range []string{"code", "redirect_uri", "code_verifier"} {
			f := form("grant_type", "authorization_code", "client_id", "tool", "code", code, "redirect_uri", local, "code_verifier", verifier)
			f.Del(name)
			wantError(t, "without "+name, w.As(t, "").PostForm("/oauth/token", f), 400, "invalid_request")
		}
		w.exchange(code).Want(200) // none of these has used it up
		code = w.authorize("tool", local)
		w.Clock.Advance(2 * time.Minute)
		wantError(t, "late", w.exchange(code), 400, "invalid_grant")
	})
}

func TestExchange_TwiceWithOneCodeEndsTheGrant(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		code := w.authorize("tool", local)
		api := w.As(t, w.exchange(code).Want(200).String("access_token"))
		api.Get("/v2/user").Want(200)
		wantError(t, "again", w.exchange(code), 400, "invalid_grant")
		api.Get("/v2/user").Want(401)
	})
}

func TestRevoke_EndsAllTokensOfAnApproval(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		revoke := func(token string, more ...string) *servertest.Response {
			return w.post("/oauth/revoke", append([]string{"client_id", "robot", "client_secret", robotSecret, "token", token}, more...)...)
		}
		for _, hint := range []string{"", "access_token", "refresh_token", "nonsense"} {
			for _, which := range []int{0, 1} {
				access, refresh := w.signIn()
				w.As(t, access).Get("/v2/user").Want(200)
				r := revoke([]string{access, refresh}[which], "token_type_hint", hint).Want(200)
				if len(r.Body) != 0 || r.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("answered %q, %v", r.Body, r.Header)
				}
				w.As(t, access).Get("/v2/user").Want(401)
				wantError(t, "refreshing after that", w.refresh(refresh), 400, "invalid_grant")
				revoke(access).Want(200) // again
			}
		}
		revoke("svcua_unknown").Want(200)
		access, _ := w.signIn()
		wantError(t, "no token", revoke(""), 400, "invalid_request")
		wantError(t, "no secret", w.post("/oauth/revoke", "client_id", "robot", "token", access), 401, "invalid_client")
		wantError(t, "another application's", w.post("/oauth/revoke", "client_id", "tool", "token", access), 400, "unauthorized_client")
		wantError(t, "a person's own", revoke(servertest.Ada), 400, "unauthorized_client")
		w.As(t, access).Get("/v2/user").Want(200)
		w.As(t, servertest.Ada).Get("/v2/user").Want(200)
	})
}

func TestMetadata_ReportsWhatIsHere(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		r := w.As(t, "").Get("/.well-known/oauth-authorization-server").Want(200)
		for name, want := range map[string]any{
			"issuer":                           w.URL,
			"authorization_endpoint":           w.URL + "/oauth/authorize",
			"device_authorization_endpoint":    w.URL + "/oauth/device_authorization",
			"token_endpoint":                   w.URL + "/oauth/token",
			"revocation_endpoint":              w.URL + "/oauth/revoke",
			"response_types_supported":         []any{"code"},
			"code_challenge_methods_supported": []any{"S256"},
			"grant_types_supported":            []any{"authorization_code", "refresh_token", deviceCodeGrant},
		} {
			if got := r.At(name); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if scopes, _ := r.At("scopes_supported").([]any); !slices.Contains(scopes, any("read_builds")) || slices.Contains(scopes, any("*")) {
			t.Errorf("scopes %v", scopes)
		}
	})
}
