package oauth

import (
	"errors"
	"maps"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

// askCode are the parameters of a good request for an authorization code, with some changed: "" leaves
// one out.
func askCode(changes map[string]string) url.Values {
	ask := map[string]string{
		"response_type": "code", "client_id": "tool", "redirect_uri": "http://127.0.0.1:8123/cb", "scope": "read_builds", "state": "s t&te",
		"code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method": "S256",
	}
	maps.Copy(ask, changes)
	query := make(url.Values)
	for name, value := range ask {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

func TestAuthorizationRequest_ShowsWhoAsksForWhat(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		got, err := s.AuthorizationRequest(t.Context(), s.ada, askCode(map[string]string{"organization": "rival", "client_id": "robot"}))
		if err != nil {
			t.Fatal(err)
		}
		if got.Application.ClientID != "robot" || got.Owner != "Acme" || len(got.Scopes) != 1 || got.Preselected != s.rival.ID || got.RedirectHost != "127.0.0.1:8123" {
			t.Errorf("got %+v", got)
		}
		for _, c := range []struct{ uuid, slug, want string }{
			{s.acme.ID, "rival", s.acme.ID},
			{core.NewID(), "rival", s.rival.ID},
			{"nonsense", "acme", s.acme.ID},
			{"", "\x00", ""},
			{"", "nobody", ""},
		} {
			got, err := s.AuthorizationRequest(t.Context(), s.ada, askCode(map[string]string{"organization": c.slug, "organization_uuid": c.uuid}))
			if err != nil || got.Preselected != c.want {
				t.Errorf("hinting at %+v: %q, %v", c, got.Preselected, err)
			}
		}
	})
}

func TestAuthorizationRequest_RedirectsOnlySafeErrors(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		for name, c := range map[string]struct {
			change map[string]string
			kind   core.Kind // of the error on the page
			code   string    // or what the application is
		}{
			"no client":                  {map[string]string{"client_id": ""}, core.BadRequest, ""},
			"an unknown client":          {map[string]string{"client_id": "nobody"}, core.NotFound, ""},
			"a client of bytes":          {map[string]string{"client_id": "\x00\xff"}, core.NotFound, ""},
			"no redirect":                {map[string]string{"redirect_uri": ""}, core.BadRequest, ""},
			"a redirect elsewhere":       {map[string]string{"redirect_uri": "https://evil.test/"}, core.BadRequest, ""},
			"no response type":           {map[string]string{"response_type": ""}, 0, "invalid_request"},
			"another response type":      {map[string]string{"response_type": "token"}, 0, "unsupported_response_type"},
			"no scope":                   {map[string]string{"scope": ""}, 0, "invalid_scope"},
			"an unknown scope":           {map[string]string{"scope": "read_builds fly"}, 0, "invalid_scope"},
			"no challenge":               {map[string]string{"code_challenge": ""}, 0, "invalid_request"},
			"a short challenge":          {map[string]string{"code_challenge": "abc"}, 0, "invalid_request"},
			"no method, which is plain":  {map[string]string{"code_challenge_method": ""}, 0, "invalid_request"},
			"the method plain":           {map[string]string{"code_challenge_method": "plain"}, 0, "invalid_request"},
			"a state without end":        {map[string]string{"state": strings.Repeat("s", maxState+1)}, 0, "invalid_request"},
			"a redirect with parameters": {map[string]string{"redirect_uri": "http://[::1]:1/cb?a=b", "scope": ""}, 0, "invalid_scope"},
		} {
			query := askCode(c.change)
			_, err := s.AuthorizationRequest(t.Context(), s.ada, query)
			if _, approveErr := s.ApproveAuthorization(t.Context(), s.ada, query, s.acme.ID); err == nil || approveErr == nil || approveErr.Error() != err.Error() {
				t.Errorf("%s: shown %v, approved %v", name, err, approveErr)
			}
			redirect, ok := errors.AsType[*Redirect](err)
			if c.code == "" {
				if ok {
					t.Errorf("%s: would redirect to %s", name, redirect.URL)
				}
				wantKind(t, name, err, c.kind)
				continue
			}
			if !ok {
				t.Errorf("%s: %v, want a redirect", name, err)
				continue
			}
			u, _ := url.Parse(redirect.URL)
			if got := u.Query(); !strings.HasPrefix(redirect.URL, query.Get("redirect_uri")) || got.Get("error") != c.code || got.Get("error_description") == "" ||
				name != "a state without end" && got.Get("state") != "s t&te" {
				t.Errorf("%s: redirects to %s", name, redirect.URL)
			}
		}
		twice := askCode(nil)
		twice.Add("redirect_uri", "http://127.0.0.1:1/")
		_, err := s.AuthorizationRequest(t.Context(), s.ada, twice)
		wantKind(t, "two redirects", err, core.BadRequest)
		s.exec(`UPDATE oauth_applications SET enabled = FALSE`)
		_, err = s.AuthorizationRequest(t.Context(), s.ada, askCode(nil))
		wantKind(t, "a disabled application", err, core.Gone)
	})
}

func TestApproveAuthorization_SendsBackACodeWithTheState(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		_, err := s.ApproveAuthorization(t.Context(), s.bo, askCode(nil), s.rival.ID)
		wantKind(t, "another user's organization", err, core.Unprocessable)
		to, err := s.ApproveAuthorization(t.Context(), s.bo, askCode(map[string]string{"redirect_uri": "http://localhost:9/cb?a=b"}), s.acme.ID)
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(to)
		if q := u.Query(); u.Host != "localhost:9" || q.Get("a") != "b" || q.Get("state") != "s t&te" || !strings.HasPrefix(q.Get("code"), codePrefix) || q.Has("error") {
			t.Errorf("sends to %s", to)
		}
		if s.count("oauth_authorization_codes") != 1 || s.count("oauth_grants") != 1 {
			t.Error("there is no code, or no grant")
		}
		to, err = s.ApproveAuthorization(t.Context(), s.bo, askCode(map[string]string{"state": ""}), s.acme.ID)
		if err != nil || strings.Contains(to, "state") {
			t.Errorf("without a state: %s, %v", to, err)
		}
	})
}

func TestDenyAuthorization_SendsBackARefusal(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		to, err := s.DenyAuthorization(t.Context(), askCode(nil))
		u, _ := url.Parse(to)
		if q := u.Query(); err != nil || q.Get("error") != "access_denied" || q.Get("state") != "s t&te" {
			t.Errorf("sends to %s, %v", to, err)
		}
	})
}
