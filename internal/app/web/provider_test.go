package web_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/app/web/accountpages"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/outbound/oauthtest"
)

// A provider is an OpenID Connect provider whose only user is already signed in there.
type provider struct {
	*httptest.Server
	t     *testing.T
	key   *rsa.PrivateKey
	clock func() time.Time

	codes  oauthtest.Codes
	mu     sync.Mutex
	claims map[string]any       // of the user
	sign   func(map[string]any) // changes an ID token before it is signed
}

const clientID, clientSecret = "stackyard", oauthtest.ClientSecret

var providerKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, key: providerKey(), codes: oauthtest.Codes{ClientID: clientID}, claims: map[string]any{"sub": "7", "email": "Ada@acme.test", "email_verified": true}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) discovery(w http.ResponseWriter, r *http.Request) {
	json.NewEncoder(w).Encode(map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *provider) keys(w http.ResponseWriter, r *http.Request) {
	json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
}

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.URL.Query().Get("scope"), "openid") {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	p.codes.Authorize(w, r, "nonce")
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	query, ok := p.codes.Redeem(r)
	if !ok || id != url.QueryEscape(clientID) || secret != url.QueryEscape(clientSecret) {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	now := p.clock()
	claims := map[string]any{"iss": p.URL, "aud": clientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": query.Get("nonce")}
	for name, value := range p.claims {
		claims[name] = value
	}
	if p.sign != nil {
		p.sign(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: p.key, KeyID: "1"}}, nil)
	if err != nil {
		p.t.Error(err)
	}
	idToken, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		p.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": idToken})
}

// withProvider starts a server with a provider.
func withProvider(t *testing.T, d *db.DB) (*servertest.Server, *provider) {
	t.Helper()
	p := newProvider(t)
	s := servertest.Start(t, d, func(parts *server.Parts) {
		parts.Provider = &accountpages.Provider{Issuer: p.URL, ClientID: clientID, ClientSecret: clientSecret}
	})
	p.clock = s.Clock.Now
	s.Apply(servertest.World)
	prepare(t, s)
	return s, p
}

// throughProvider follows a visitor to the provider and back.
func (v *visitor) throughProvider(p *provider, returnTo string) *page {
	v.t.Helper()
	return v.comeBack(p, v.get("/login/oidc?return_to="+url.QueryEscape(returnTo)))
}

// comeBack follows a redirect to the provider and the one back.
func (v *visitor) comeBack(p *provider, sent *page) *page {
	v.t.Helper()
	to := sent.want(303).Header.Get("Location")
	if !strings.HasPrefix(to, p.URL+"/authorize?") {
		v.t.Fatalf("sent to %q", to)
	}
	resp, err := v.client.Get(to)
	if err != nil {
		v.t.Fatal(err)
	}
	resp.Body.Close()
	back := resp.Header.Get("Location")
	if resp.StatusCode != http.StatusFound || !strings.HasPrefix(back, v.url+"/login/oidc/callback?") {
		v.t.Fatalf("the provider answers %d to %q", resp.StatusCode, back)
	}
	return v.get(strings.TrimPrefix(back, v.url))
}

func TestProvider_SignsInTheMemberWithTheVerifiedEmail(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, p := withProvider(t, d)
		v := visit(t, s)
		if link := v.get("/login?return_to=/settings/sessions").find(`href="(/login/oidc[^"]*)"`); link != "/login/oidc?return_to=%2fsettings%2fsessions" {
			t.Errorf("the link is %q", link)
		}
		v.throughProvider(p, "/settings/sessions").wantRedirect("/settings/sessions")
		v.get("/settings/sessions").want(200, "with single sign-on")
		v.get("/").want(200, "Hello, Ada")
		visit(t, s).throughProvider(p, "https://evil.test").wantRedirect("/")
	})
}

func TestProvider_IsNotTrusted(t *testing.T) {
	s, p := withProvider(t, dbtest.New(t, db.SQLite))
	for name, c := range map[string]struct {
		claims map[string]any
		sign   func(map[string]any)
		status int
		want   string
	}{
		"a stranger":             {claims: map[string]any{"email": "eve@elsewhere.test", "email_verified": true}, status: 403, want: "No user has the email eve@elsewhere.test"},
		"an unverified email":    {claims: map[string]any{"email": "ada@acme.test", "email_verified": false}, status: 403, want: "did not send a verified email"},
		"nothing about the rest": {claims: map[string]any{"email": "ada@acme.test"}, status: 403, want: "did not send a verified email"},
		"no email":               {claims: map[string]any{"email_verified": true}, status: 403, want: "did not send a verified email"},
		"verified as a text":     {claims: map[string]any{"email": "ada@acme.test", "email_verified": "true"}, status: 303},
		"another nonce":          {sign: func(c map[string]any) { c["nonce"] = "x" }, status: 503, want: "Sign-in with"},
		"another audience":       {sign: func(c map[string]any) { c["aud"] = "another" }, status: 503, want: "Sign-in with"},
		"another issuer":         {sign: func(c map[string]any) { c["iss"] = "https://evil.test" }, status: 503, want: "Sign-in with"},
		"an expired token":       {sign: func(c map[string]any) { c["exp"] = s.Clock.Now().Add(-time.Hour).Unix() }, status: 503, want: "Sign-in with"},
	} {
		t.Run(name, func(t *testing.T) {
			p.mu.Lock()
			p.claims, p.sign = c.claims, c.sign
			if c.claims == nil {
				p.claims = map[string]any{"email": "ada@acme.test", "email_verified": true}
			}
			p.mu.Unlock()
			v := visit(t, s)
			v.throughProvider(p, "/").want(c.status, c.want)
			if in := v.sessionCookie() != ""; in != (c.status == 303) {
				t.Errorf("signed in: %v", in)
			}
		})
	}
}

// A browser cannot complete a sign-in that another browser started.
func TestProvider_AnswersOnlyTheBrowserThatSetOut(t *testing.T) {
	s, p := withProvider(t, dbtest.New(t, db.SQLite))
	attacker, victim := visit(t, s), visit(t, s)
	sent := attacker.get("/login/oidc")
	to, err := url.Parse(sent.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	state := to.Query().Get("state")
	const callback = "/login/oidc/callback?"
	victim.get(callback+url.Values{"state": {state}, "code": {"x"}}.Encode()).want(400, "was started in another browser")
	victim.get("/login/oidc").want(303)
	victim.get(callback+url.Values{"state": {state}, "code": {"x"}}.Encode()).want(400, "was started in another browser")
	victim.get(callback+"code=x").want(400, "was started in another browser")
	attacker.comeBack(p, sent).wantRedirect("/")
	attacker.get(callback+url.Values{"state": {state}, "code": {"x"}}.Encode()).want(400, "was started in another browser")

	slow := visit(t, s)
	sent = slow.get("/login/oidc")
	s.Clock.Advance(11 * time.Minute)
	slow.comeBack(p, sent).want(400, "took too long")
}

func TestProvider_ThatRefusesOrIsAwayIsReportedClearly(t *testing.T) {
	s, p := withProvider(t, dbtest.New(t, db.SQLite))
	p.codes.SetRefuse("access_denied<script>")
	visit(t, s).throughProvider(p, "/").want(403, "did not let you in", "access_denied<script>")
	p.Close()
	gone := servertest.Start(t, dbtest.New(t, db.SQLite), func(parts *server.Parts) {
		parts.Provider = &accountpages.Provider{Issuer: p.URL, ClientID: clientID}
	})
	v := visit(t, gone)
	v.get("/login/oidc").want(503, "Sign-in with")
	v.get("/login").want(200, "Sign in with 127.0.0.1")
}

func TestProvider_IsWantedByOrganizations(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, p := withProvider(t, d)
		p.claims["email"] = "bo@acme.test"
		early := signIn(t, s, "bo@acme.test")
		s.As(t, servertest.Ada).Patch("/v2/organizations/acme/members/"+servertest.BoID, map[string]any{"sso_mode": "required"}).Want(200)
		early.get("/").want(200, "Sign in")
		v := visit(t, s)
		v.post("/login", "email", "bo@acme.test", "password", password).want(403, "requires you to sign in with 127.0.0.1")
		if v.sessionCookie() != "" {
			t.Error("the visitor is signed in all the same")
		}
		v.throughProvider(p, "/").wantRedirect("/")
		v.get("/").want(200, "Hello, Bo")
		signIn(t, s, "ada@acme.test")
	})
}

func TestBrowser_SignsInWithAProvider(t *testing.T) {
	s, _ := withProvider(t, dbtest.New(t, db.SQLite))
	b := newBrowser(t, s.URL)
	b.open("/settings/sessions")
	b.see("Sign in with 127.0.0.1")
	b.shoot("sign-in-provider")
	b.press("Sign in with 127.0.0.1")
	b.see("Sessions", "with single sign-on")
}
