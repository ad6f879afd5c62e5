package oauth_test

import (
	"net/netip"
	"net/url"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// applications is an organization file that adds applications to servertest.World.
const applications = `
organizations:
  - slug: acme
    oauth_applications:
      - {client_id: tool, name: Tool}
      - {client_id: robot, name: Robot, confidential: true, client_secret: "s3cret:&%+ é", token_expires_in: 3600, refresh_tokens: true}
      - {client_id: cli, name: Command line, token_expires_in: 3600, refresh_tokens: true}
      - {client_id: narrow, name: Narrow, scopes: [read_user, read_builds]}
      - {client_id: off, name: Off, enabled: false}
  - slug: rival
    members:
      - {email: ada@acme.test, role: member}
`

const robotSecret = "s3cret:&%+ é"

// A fixture is a scenario with applications, and the service that the pages of another replica use.
type fixture struct {
	*servertest.Scenario
	pages *oauth.Service
	rival string // id of the organization
}

func eachFixture(t *testing.T, fn func(t *testing.T, w *fixture)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, newFixture(t, s)) })
}

func newFixture(t *testing.T, s *servertest.Server) *fixture {
	s.Apply(applications)
	w := &fixture{Scenario: s.Scenario(t), rival: s.OrganizationID(t, "rival")}
	w.WantNoError(s.DB.Write(t.Context(), func(q *db.Q) error { return oauth.EnsureBuiltIn(q, s.Clock.Now()) }))
	w.pages = oauth.New(s.DB, identity.NewDirectory(s.DB, s.Clock.Now), s.Key, core.PublicURL(s.URL), s.Clock.Now)
	return w
}

var (
	ada = oauth.Visitor{UserID: servertest.AdaID, Address: netip.MustParseAddr("192.0.2.1")}
	bo  = oauth.Visitor{UserID: servertest.BoID, Address: netip.MustParseAddr("192.0.2.2")}
)

// form makes a form of names and values; a value "" leaves its name out.
func form(pairs ...string) url.Values {
	f := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			f.Set(pairs[i], pairs[i+1])
		}
	}
	return f
}

// post posts a form without any token.
func (w *fixture) post(path string, pairs ...string) *servertest.Response {
	w.T.Helper()
	return w.As(w.T, "").PostForm(path, form(pairs...))
}

// A started device authorization has two codes.
type started struct{ deviceCode, userCode string }

// start starts the device authorization of a public application.
func (w *fixture) start(clientID string, more ...string) started {
	w.T.Helper()
	r := w.post("/oauth/device_authorization", append([]string{"client_id", clientID, "scope", "read_builds read_user"}, more...)...).Want(200)
	return started{r.String("device_code"), r.String("user_code")}
}

// poll polls for a token of a public application.
func (w *fixture) poll(clientID string, d started, more ...string) *servertest.Response {
	w.T.Helper()
	return w.post("/oauth/token", append([]string{
		"grant_type", "urn:ietf:params:oauth:grant-type:device_code", "client_id", clientID, "device_code", d.deviceCode,
	}, more...)...)
}

func (w *fixture) approve(v oauth.Visitor, d started, organizationID string) {
	w.T.Helper()
	w.WantNoError(w.pages.ApproveDevice(w.T.Context(), v, d.userCode, organizationID))
}

// wantError fails the test unless a response is an OAuth error with a status and code.
func wantError(t *testing.T, name string, r *servertest.Response, status int, code string) {
	t.Helper()
	if r.Status != status || !r.Has("error") || r.String("error") != code {
		t.Errorf("%s: %d %s, want %d %s", name, r.Status, r.Body, status, code)
	}
	if r.Has("message") || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: has a message, or may be cached: %s %v", name, r.Body, r.Header)
	}
	if challenged := r.Header.Get("WWW-Authenticate") != ""; challenged != (status == 401) {
		t.Errorf("%s: status %d with WWW-Authenticate %q", name, status, r.Header.Get("WWW-Authenticate"))
	}
}
