package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/core"
	"stackyard/internal/identity"
	"stackyard/internal/route"
	"stackyard/internal/server/servertest"
)

// fill returns a route's path with values of World in the place of its wildcards; what World does not
// have gets an id that does not exist.
func fill(path string) string {
	return strings.NewReplacer(
		"{org}", "acme", "{pipeline}", "hello", "{cluster}", servertest.AcmeClusterID, "{queue}", servertest.AcmeQueueID,
		"{team}", "everyone", "{user}", servertest.BoID,
	).Replace(unknownWildcards(path))
}

func unknownWildcards(path string) string {
	known := "{org} {pipeline} {cluster} {queue} {team} {user}"
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") && !strings.Contains(known, s) {
			segments[i] = core.NewID()
		}
	}
	return strings.Join(segments, "/")
}

// bearerRoutes are the routes that an access token opens.
func bearerRoutes(s *servertest.Server) []route.Route {
	var routes []route.Route
	for _, r := range s.Routes() {
		if r.Auth == route.Bearer {
			routes = append(routes, r)
		}
	}
	return routes
}

// grant makes ada an access token with some scopes.
func grant(s *servertest.Server, token string, scopes []string) {
	s.Apply(fmt.Sprintf(`
organizations:
  - slug: acme
    members:
      - email: ada@acme.test
        access_tokens:
          - {description: %s, token: %s, scopes: [%s]}
`, token, token, strings.Join(scopes, ", ")))
}

func TestEveryRoute_WithoutATokenIs401(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for _, r := range s.Routes() {
			if r.Auth == route.Open {
				continue
			}
			resp := s.As(t, "").Do(r.Method, fill(r.Path), nil)
			resp.Want(http.StatusUnauthorized)
			if resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s: no WWW-Authenticate", r.Method, r.Path)
			}
			s.As(t, "svcua_unknown").Do(r.Method, fill(r.Path), nil).Want(http.StatusUnauthorized)
		}
	})
}

func TestEveryRoute_WithEveryScopeButItsOwnIs403(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		granted := make(map[identity.Scope]string)
		for _, r := range bearerRoutes(s) {
			if r.Scope == route.NoScope {
				continue
			}
			if granted[r.Scope] == "" {
				granted[r.Scope] = "svcua_all-but-" + string(r.Scope)
				var others []string
				for _, scope := range identity.AllScopes {
					if scope != r.Scope {
						others = append(others, string(scope))
					}
				}
				grant(s, granted[r.Scope], others)
			}
			resp := s.As(t, granted[r.Scope]).Do(r.Method, fill(r.Path), nil).Want(http.StatusForbidden)
			if !strings.Contains(resp.String("message"), string(r.Scope)) {
				t.Errorf("%s %s: %q does not name the scope %s", r.Method, r.Path, resp.String("message"), r.Scope)
			}
		}
	})
}

func TestEveryRoute_WithItsScopeOnlyIsAllowed(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for i, r := range bearerRoutes(s) {
			token := fmt.Sprintf("svcua_only-%d", i)
			scopes := []string{string(r.Scope)}
			if r.Scope == route.NoScope {
				scopes = nil
			}
			grant(s, token, scopes)
			resp := s.As(t, token).Do(r.Method, fill(r.Path), nil)
			switch resp.Status {
			case http.StatusUnauthorized, http.StatusInternalServerError, http.StatusMethodNotAllowed:
				t.Errorf("%s %s with %v: status %d, %s", r.Method, r.Path, scopes, resp.Status, resp.Body)
			case http.StatusForbidden:
				if strings.Contains(resp.String("message"), "scope") {
					t.Errorf("%s %s with %v: %s", r.Method, r.Path, scopes, resp.Body)
				}
			}
		}
	})
}

func TestEveryRoute_OfAnotherOrganizationIs404(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for _, r := range bearerRoutes(s) {
			if !strings.Contains(r.Path, "{org}") {
				continue
			}
			s.As(t, servertest.Cy).Do(r.Method, fill(r.Path), nil).Want(http.StatusNotFound)
			nobody := strings.Replace(fill(r.Path), "/acme", "/nobody", 1)
			s.As(t, servertest.Cy).Do(r.Method, nobody, nil).Want(http.StatusNotFound)
		}
	})
}

// Ids of one organization do not work under another's path either.
func TestEveryRoute_WithIdsOfAnotherOrganizationIs404(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for _, r := range bearerRoutes(s) {
			if !strings.Contains(r.Path, "{org}/") || strings.Count(r.Path, "{") < 2 {
				continue
			}
			path := strings.Replace(fill(r.Path), "/acme", "/rival", 1)
			s.As(t, servertest.Cy).Do(r.Method, path, nil).Want(http.StatusNotFound)
		}
	})
}

func TestEveryRoute_OfASuspendedOrganizationIs503(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply("organizations: [{slug: acme, suspended: true}]")
		for _, r := range s.Routes() {
			var resp *servertest.Response
			switch {
			case r.Auth == route.Agent:
				resp = s.AsAgent(t, servertest.AcmeAgent).Do(r.Method, fill(r.Path), nil)
			case r.Auth == route.Bearer && strings.Contains(r.Path, "{org}"):
				resp = s.As(t, servertest.Ada).Do(r.Method, fill(r.Path), nil)
			default:
				continue
			}
			resp.Want(http.StatusServiceUnavailable)
			if resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s %s: no Retry-After", r.Method, r.Path)
			}
		}
	})
}

// Nonsense never gets an answer of the 500s, whatever the route.
func TestEveryRoute_AnswersNonsenseWith4xx(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		bodies := []string{`{`, `[]`, `null`, `"x"`, `{} x`, "\xff", `{"name": {"a": 1}, "key": [1], "cluster_id": 3, "role": 7, "slug": "\u0000"}`, `{"name": null, "key": null, "description": null}`}
		for _, r := range bearerRoutes(s) {
			if r.Method == http.MethodGet || r.Method == http.MethodDelete {
				resp := s.As(t, servertest.Bo).Do(r.Method, fill(r.Path)+"?page=x&per_page=0&after=x&created_from=x", nil)
				if resp.Status >= 500 {
					t.Errorf("%s %s: status %d, %s", r.Method, r.Path, resp.Status, resp.Body)
				}
				continue
			}
			for _, body := range bodies {
				resp := s.As(t, servertest.Ada).Do(r.Method, fill(r.Path), body)
				if resp.Status >= 500 {
					t.Errorf("%s %s with %s: status %d, %s", r.Method, r.Path, body, resp.Status, resp.Body)
				}
			}
		}
	})
}
