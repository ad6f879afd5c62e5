package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/identity"
)

func TestDevice_ShowsWhoAsksForWhatAndFromWhere(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		d := startDevice(t, s, "scope", "read_builds write_builds graphql")
		v := signIn(t, s, "ada@acme.test")
		p := v.get(d.Complete).want(200,
			"Authorize Stackyard CLI?", "ada@acme.test", "part of this installation", d.UserCode, "From127.0.0.1", "Withstackyard/1.0",
			"See builds, jobs and annotations read_builds", "Start, cancel, rebuild, retry and unblock builds and jobs write_builds", "No effect here: graphql")
		if p.find(`name="organization" value="([^"]*)" required checked`) == "" {
			t.Error("the only organization is not chosen")
		}
		all := startDevice(t, s, "scope", strings.Join(identity.Scopes{identity.EveryScope}.Names(), " "))
		v.get(all.Complete).want(200, "Everything you can do", "All scopes", "See pipelines read_pipelines")
	})
}

func TestDevice_PreselectsTheHintOnlyForThoseWhoBelongThere(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: third, name: Third, members: [{email: ada@acme.test}]}]`)
		ada := signIn(t, s, "ada@acme.test")
		chosen := func(d *device) bool {
			return strings.Contains(ada.get(d.Complete).want(200, "Acme Inc", "Third").Body, " checked>")
		}
		if !chosen(startDevice(t, s, "organization", "third")) {
			t.Error("the hint is not preselected")
		}
		if chosen(startDevice(t, s, "organization", "rival")) || chosen(startDevice(t, s)) {
			t.Error("an organization is preselected although there is no hint that counts")
		}
		ada.get(startDevice(t, s, "organization", "rival").Complete).wantNot("Rival")
	})
}

func TestDevice_NeedsADecisionAndAnOrganizationOfOnesOwn(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		d := startDevice(t, s)
		v := signIn(t, s, "ada@acme.test")
		v.post(d.Complete).want(422, "Choose Approve or Deny.")
		v.post(d.Complete, "decision", "approve").want(422, "Choose one of your organizations")
		v.post(d.Complete, "decision", "approve", "organization", s.OrganizationID(t, "rival")).want(422, "Choose one of your organizations")
		if got := d.poll().Want(400).String("error"); got != "authorization_pending" {
			t.Errorf("the device got %s", got)
		}
		v.post(d.Complete, "decision", "approve", "organization", s.OrganizationID(t, "acme")).want(200, "Approved")
		v.post(d.Complete, "decision", "approve", "organization", s.OrganizationID(t, "acme")).want(409, "approved before")
		v.get(d.Complete).want(409, "approved before")
		token := d.poll().Want(200).String("access_token")
		s.As(t, token).Get("/v2/organizations/acme/pipelines").Want(200)

		nobodys := startDevice(t, s)
		lonely := signIn(t, s, "cy@rival.test")
		s.Apply(`organizations: [{slug: rival, members: [{email: di@rival.test, role: admin, access_tokens: [{description: x, token: svcua_di, scopes: ["*"]}]}]}]`)
		s.As(t, "svcua_di").Delete("/v2/organizations/rival/members/" + servertest.CyID).Want(204)
		p := lonely.get(nobodys.Complete).want(200, "You are not a member of any organization", "Deny")
		if strings.Contains(p.Body, `value="approve"`) {
			t.Error("there is a button that could do nothing")
		}
	})
}

func TestAuthorized_RevokeEndsEveryTokenAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := signIn(t, s, "ada@acme.test")
		acme := s.OrganizationID(t, "acme")
		var tokens []string
		for range 2 {
			d := startDevice(t, s)
			v.post(d.Complete, "decision", "approve", "organization", acme).want(200)
			tokens = append(tokens, d.poll().Want(200).String("access_token"))
		}
		p := v.get("/settings/authorized-applications").want(200, "Stackyard CLI in Acme Inc", "Approved 2 times")
		revoke := p.find(`action="([^"]*/revoke)"`)
		signIn(t, s, "bo@acme.test").post(revoke).want(404, "not authorized")
		v.post("/settings/authorized-applications/x/y/revoke").want(404)
		s.As(t, tokens[0]).Get("/v2/user").Want(200)
		v.post(revoke).wantRedirect("/settings/authorized-applications")
		v.get("/settings/authorized-applications").want(200, "Application revoked", "No authorized applications")
		for _, token := range tokens {
			s.As(t, token).Get("/v2/user").Want(401)
		}
		v.post(revoke).want(404)
	})
}

const verifier = "a-verifier-that-is-long-enough-for-the-specification"

// authorizePath returns the path to which a program on the user's machine sends the browser.
func authorizePath(change ...string) string {
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {"stackyard-cli"}, "redirect_uri": {"http://127.0.0.1:4711/callback"}, "scope": {"read_user"}, "state": {"xyz"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(change); i += 2 {
		query.Set(change[i], change[i+1])
	}
	return "/oauth/authorize?" + query.Encode()
}

func TestAuthorize_SendsTheBrowserBackWithACode(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := visit(t, s)
		path := authorizePath()
		v.get(path).wantRedirect("/login?" + url.Values{"return_to": {path}}.Encode())
		v.post("/login", "email", "ada@acme.test", "password", password, "return_to", path).wantRedirect(path)
		p := v.get(path).want(200, "Authorize Stackyard CLI?", "See your name and email", "then returns to 127.0.0.1:4711")
		if policy := p.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' http://127.0.0.1:4711;") {
			t.Errorf("the policy %q keeps the browser from going back", policy)
		}
		action := p.find(`action="(/oauth/authorize[^"]*)"`)
		v.post(action, "decision", "approve").want(422, "Choose one of your organizations")
		answered := v.post(action, "decision", "approve", "organization", s.OrganizationID(t, "acme")).want(303)
		back, err := url.Parse(answered.Header.Get("Location"))
		if err != nil || back.Host != "127.0.0.1:4711" || back.Path != "/callback" || back.Query().Get("state") != "xyz" {
			t.Fatalf("sent to %s, %v", back, err)
		}
		token := oauthPost(t, s, "/oauth/token", url.Values{
			"grant_type": {"authorization_code"}, "client_id": {"stackyard-cli"}, "code": {back.Query().Get("code")}, "redirect_uri": {"http://127.0.0.1:4711/callback"}, "code_verifier": {verifier},
		}).Want(200).String("access_token")
		s.As(t, token).Get("/v2/user").Want(200)
		v.get("/settings/authorized-applications").want(200, "Stackyard CLI in Acme Inc")

		denied := v.post(action, "decision", "deny").want(303).Header.Get("Location")
		if !strings.HasPrefix(denied, "http://127.0.0.1:4711/callback?") || !strings.Contains(denied, "error=access_denied") {
			t.Errorf("sent to %s", denied)
		}
	})
}

// A redirect URI that is not the application's gets neither the browser nor a code.
func TestAuthorize_NeverRedirectsToAnUnregisteredURL(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := signIn(t, s, "ada@acme.test")
		for _, path := range []string{
			authorizePath("redirect_uri", "https://evil.test/callback"), authorizePath("redirect_uri", "http://127.0.0.1.evil.test/"),
			authorizePath("redirect_uri", "javascript:alert(1)"), authorizePath("redirect_uri", ""), authorizePath("client_id", "nobody"),
		} {
			for _, p := range []*page{v.get(path), v.post(path, "decision", "approve", "organization", s.OrganizationID(t, "acme")), v.post(path, "decision", "deny")} {
				if p.Status < 400 || p.Header.Get("Location") != "" {
					t.Errorf("%s: status %d to %q", p.what, p.Status, p.Header.Get("Location"))
				}
			}
		}
		wrong := v.get(authorizePath("code_challenge_method", "plain")).want(303).Header.Get("Location")
		if !strings.HasPrefix(wrong, "http://127.0.0.1:4711/callback?") || !strings.Contains(wrong, "error=invalid_request") {
			t.Errorf("sent to %s", wrong)
		}
	})
}

func TestApplications_AreForAdministratorsOfTheirOrganization(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo, cy := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test"), signIn(t, s, "cy@rival.test")
		const list = "/settings/oauth-applications"
		fields := []string{"organization", "acme", "name", "Dashboard", "type", "confidential", "scopes", "read_builds", "scopes", "read_user", "token_expires_in", "3600", "refresh_tokens", "1", "redirect_uris", "https://dash.test/callback\r\nhttp://localhost/callback"}
		bo.get("/").wantNot("OAuth applications")
		bo.get(list).want(200, "You are not an administrator")
		bo.get(list+"/new").want(403, "Only administrators")
		bo.post(list, fields...).want(404)
		cy.post(list, fields...).want(404)
		ada.post(list, "organization", "acme", "name", " ", "token_expires_in", "soon").want(422, "The time must be one of those offered")
		ada.post(list, "organization", "acme", "name", " ", "token_expires_in", "60", "redirect_uris", "ftp://x").want(422, "The name must have", "Scopes must have at least one", `The list has "ftp://x"`)

		p := ada.post(list, fields...).want(201, "Client secret of Dashboard", "will not be shown again")
		secret := p.find(`<code class="secret"[^>]*>([^<]*)</code>`)
		path := p.find(`href="(/settings/oauth-applications/acme/[0-9a-f-]{36})"`)
		edit := ada.get(path).want(200, "confidential", "Dashboard").wantNot(secret)
		client := edit.find(`<dd><code>([^<]*)</code></dd>`)
		if edit.find(`(?s)<textarea[^>]*>(.*?)</textarea>`) != "https://dash.test/callback\nhttp://localhost/callback" {
			t.Error("the redirect URIs are lost")
		}
		for _, stranger := range []*visitor{bo, cy} {
			stranger.get(path).want(404, "your organization does not manage it")
			stranger.post(path, fields...).want(404)
			stranger.post(path + "/secret").want(404)
		}
		cy.get(strings.Replace(path, "acme", "rival", 1)).want(404)

		ask := func(secret string) *servertest.Response {
			return oauthPost(t, s, "/oauth/device_authorization", url.Values{"client_id": {client}, "client_secret": {secret}, "scope": {"read_builds"}})
		}
		ask(secret).Want(200)
		renewed := ada.post(path+"/secret").want(200, "Client secret of Dashboard").find(`<code class="secret"[^>]*>([^<]*)</code>`)
		ask(secret).Want(401)
		ask(renewed).Want(200)
		ada.post(path, fields...).wantRedirect(path) // without "enabled"
		ada.get(path).want(200, "Application saved")
		ask(renewed).Want(401)
		ada.get(list).want(200, "Dashboard disabled")
		ada.post(path, append(fields, "enabled", "1")...).wantRedirect(path)
		ask(renewed).Want(200)
	})
}

func TestTokens_AreMadeForChosenOrganizationsAndScopes(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := signIn(t, s, "ada@acme.test")
		acme, rival := s.OrganizationID(t, "acme"), s.OrganizationID(t, "rival")
		v.post("/settings/tokens", "description", "x", "scopes", "fly", "organizations", rival, "expires", "7").want(422, "Scopes must be known ones", "Organizations must be at least one of yours")
		v.post("/settings/tokens", "description", "x", "scopes", "*", "organizations", acme, "expires", "soon").want(422, "The expiry must be one of those offered")
		again := v.post("/settings/tokens", "description", "kept <b>", "scopes", "read_user", "organizations", acme, "expires", "365", "expires", "", "scopes", "fly").want(422)
		if again.find(`name="description"[^>]* value="([^"]*)"`) != "kept <b>" || !strings.Contains(again.Body, `value="read_user" checked`) || !strings.Contains(again.Body, `value="365" selected`) {
			t.Error("what was entered is lost")
		}

		made := v.post("/settings/tokens", "description", "robot", "scopes", "*", "scopes", "read_user", "organizations", acme, "expires", "never").want(201, "Your new access token", "will not be shown again")
		token := made.find(`<code class="secret"[^>]*>([^<]*)</code>`)
		s.As(t, token).Post("/v2/organizations/acme/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		list := v.get("/settings/tokens").want(200, "robot", "never used, does not expire", "everything").wantNot(token)
		if err := s.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		v.get("/settings/tokens").want(200, "last used just now from 127.0.0.1")
		revoke := list.find(`action="(/settings/tokens/[0-9a-f-]{36}/revoke)"`)
		signIn(t, s, "bo@acme.test").post(revoke).want(404)
		v.post(revoke).wantRedirect("/settings/tokens")
		s.As(t, token).Get("/v2/user").Want(401)
		v.post(revoke).want(404, "no such access token")
	})
}
