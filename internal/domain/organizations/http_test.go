package organizations_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/identity"
)

func TestOrganizations_AreThoseThatTheTokenReaches(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		list := s.As(t, servertest.Ada).Get("/v2/organizations").Want(200)
		if n := list.Len(""); n != 1 || list.String("0.slug") != "acme" {
			t.Errorf("an acme token lists %s", list.Body)
		}
		s.Apply(`organizations: [{slug: rival, members: [{email: ada@acme.test, access_tokens: [{description: everything, token: svcua_ada, scopes: ["*"]}, {description: rival only, token: svcua_rival, scopes: ["*"]}]}]}]`)
		both := s.As(t, servertest.Ada).Get("/v2/organizations?per_page=1").Want(200)
		if both.Len("") != 1 || both.String("0.slug") != "acme" || !strings.Contains(both.Header.Get("Link"), `page=2&per_page=1>; rel="next"`) {
			t.Errorf("the first page is %s, with links %s", both.Body, both.Header.Get("Link"))
		}
		if second := s.As(t, servertest.Ada).Get("/v2/organizations?per_page=1&page=2").Want(200); second.String("0.slug") != "rival" {
			t.Errorf("the second page is %s", second.Body)
		}
		bound := s.As(t, "svcua_rival")
		if got := bound.Get("/v2/organizations").Want(200); got.Len("") != 1 || got.String("0.slug") != "rival" {
			t.Errorf("a token bound to rival lists %s", got.Body)
		}
		bound.Get("/v2/organizations/acme").WantMessage(404, "No organization found")
	})
}

func TestOrganization_HasEveryField(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		got := s.As(t, servertest.Bo).Get("/v2/organizations/acme").Want(200)
		url := s.URL + "/v2/organizations/acme"
		for field, want := range map[string]string{
			"slug":          "acme",
			"name":          "Acme Inc",
			"url":           url,
			"web_url":       s.URL + "/acme",
			"pipelines_url": url + "/pipelines",
			"agents_url":    url + "/agents",
			"emojis_url":    url + "/emojis",
			"graphql_id":    base64.StdEncoding.EncodeToString([]byte("Organization---" + got.String("id"))),
		} {
			if v := got.String(field); v != want {
				t.Errorf("%s is %q, want %q", field, v, want)
			}
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", got.String("created_at")); err != nil {
			t.Error(err)
		}
		s.As(t, servertest.Cy).Get("/v2/organizations/acme").WantMessage(404, "No organization found")
		s.As(t, servertest.Ada).Get("/v2/organizations/nobody").WantMessage(404, "No organization found")
	})
}

func TestRateLimit_ReportsTheRemainingRequests(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, limits: {rest_requests_per_second: 7}}]`)
		ada := s.As(t, servertest.Ada)
		ada.Get("/v2/organizations/acme").Want(200)
		got := ada.Get("/v2/organizations/acme/rate_limit").Want(200)
		resets := s.Clock.Now().Add(time.Second).Format("2006-01-02T15:04:05.000Z")
		for field, want := range map[string]string{
			"limit": "7", "current": "2", "reset": "1", "reset_at": resets, "enforced": "true",
		} {
			if v := got.String("scopes.rest." + field); v != want {
				t.Errorf("%s is %s, want %s", field, v, want)
			}
		}
		if got.String("scopes.graphql.enforced") != "false" {
			t.Errorf("got %s", got.Body)
		}
		s.Apply(`organizations: [{slug: acme, limits: {rest_requests_per_second: 0}}]`)
		if got := ada.Get("/v2/organizations/acme/rate_limit").Want(200); got.String("scopes.rest.enforced") != "false" {
			t.Errorf("without a limit: %s", got.Body)
		}
	})
}

func TestEmojisAndMeta_AreEmptyLists(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		if n := s.As(t, servertest.Bo).Get("/v2/organizations/acme/emojis").Want(200).Len(""); n != 0 {
			t.Errorf("%d emojis", n)
		}
		if n := s.As(t, "").Get("/v2/meta").Want(200).Len("webhook_ips"); n != 0 {
			t.Errorf("%d addresses", n)
		}
	})
}

func TestUser_IsTheCaller(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		got := s.As(t, servertest.Ada).Get("/v2/user").Want(200)
		for field, want := range map[string]string{
			"id":         servertest.AdaID,
			"graphql_id": base64.StdEncoding.EncodeToString([]byte("User---" + servertest.AdaID)),
			"name":       "Ada",
			"email":      "ada@acme.test",
			"avatar_url": s.URL + "/avatars/" + servertest.AdaID + ".svg",
		} {
			if v := got.String(field); v != want {
				t.Errorf("%s is %q, want %q", field, v, want)
			}
		}
		if !got.Has("created_at") {
			t.Error("created_at is missing")
		}
	})
}

func TestAccessToken_DescribesItself(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, members: [{email: ada@acme.test, access_tokens: [{description: builds only, token: svcua_builds, id: 0190c0de-0000-7000-8000-0000000000f1, scopes: [read_builds], expires_at: 2999-01-01T00:00:00Z}]}]}]`)
		got := s.As(t, "svcua_builds").Get("/v2/access-token").Want(200)
		for field, want := range map[string]string{
			"uuid": "0190c0de-0000-7000-8000-0000000000f1", "description": "builds only", "scopes": "[read_builds]",
			"expires_at": "2999-01-01T00:00:00.000Z", "user.name": "Ada", "user.email": "ada@acme.test",
		} {
			if v := got.String(field); v != want {
				t.Errorf("%s is %q, want %q", field, v, want)
			}
		}
		all := s.As(t, servertest.Ada).Get("/v2/access-token").Want(200)
		if all.Len("scopes") != len(identity.AllScopes) || all.At("expires_at") != nil {
			t.Errorf("a token with every scope says %s", all.Body)
		}
	})
}

func TestAccessToken_IsRevokedAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		bo := s.As(t, servertest.Bo)
		bo.Get("/v2/access-token").Want(200)
		bo.Delete("/v2/access-token").Want(204)
		for _, path := range []string{"/v2/access-token", "/v2/user", "/v2/organizations/acme"} {
			if got := bo.Get(path).Want(401); got.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no WWW-Authenticate header", path)
			}
		}
		s.As(t, servertest.Ada).Get("/v2/access-token").Want(200)
	})
}

func TestAvatar_IsDrawnFromTheIDAlone(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		visitor := s.As(t, "")
		picture := func(id string) string {
			got := visitor.Get("/avatars/" + id + ".svg").Want(200)
			if got.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
				t.Errorf("headers are %v", got.Header)
			}
			if !strings.HasPrefix(string(got.Body), "<svg ") || strings.Contains(string(got.Body), id) {
				t.Errorf("the picture is %s", got.Body)
			}
			return string(got.Body)
		}
		ada := picture(servertest.AdaID)
		if ada != picture(strings.ToUpper(servertest.AdaID)) || ada == picture(servertest.BoID) {
			t.Error("a picture must be one user's, always the same")
		}
		for _, bad := range []string{"ada.svg", servertest.AdaID, servertest.AdaID + ".png"} {
			visitor.Get("/avatars/"+bad).WantMessage(http.StatusNotFound, "No avatar found")
		}
	})
}
