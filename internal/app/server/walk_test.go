package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// walk maps the wildcards of paths to existing values.
type walk map[string]string

// newWalk adds to World what routes need and World does not have: a build with its job, an annotation, a rule
// and a notification service.
func newWalk(t *testing.T, s *servertest.Server) walk {
	t.Helper()
	ada := s.As(t, servertest.Ada)
	const acme = "/v2/organizations/acme"
	build := ada.Post(acme+"/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	annotation := ada.Post(acme+"/pipelines/hello/builds/1/annotations", map[string]any{"body": "Hi"}).Want(http.StatusCreated)
	rule := ada.Post(acme+"/rules", map[string]any{
		"type":  "pipeline.trigger_build.pipeline",
		"value": map[string]any{"source_pipeline": "hello", "target_pipeline": "hello"},
	}).Want(http.StatusCreated)
	service := ada.Post(acme+"/services", map[string]any{"provider": "webhook", "settings": map[string]any{"url": "https://example.test"}}).Want(http.StatusCreated)
	ada.Put(acme+"/pipeline-settings/advanced-queue-metrics", nil).Want(http.StatusOK)
	delivery := ada.Get(acme + "/services/" + service.String("id") + "/deliveries").Want(http.StatusOK).String("items.0.id")
	suite := ada.Post("/v2/analytics/organizations/acme/suites", map[string]any{"name": "Unit", "default_branch": "main"}).Want(http.StatusCreated)
	connection := ada.Post(acme+"/source-connections", map[string]any{"host": "github.com", "token": "ghp_x"}).Want(http.StatusCreated)
	schedule := ada.Post(acme+"/pipelines/hello/schedules", map[string]any{"cronline": "@daily"}).Want(http.StatusCreated)
	return walk{
		"{webhook_delivery}": webhookDelivery(t, s, ada),

		"{org}": "acme", "{pipeline}": "hello", "{cluster}": servertest.AcmeClusterID, "{queue}": servertest.AcmeQueueID,
		"{team}": "everyone", "{user}": servertest.BoID,
		"{build}": "1", "{job}": build.String("jobs.0.id"), "{annotation}": annotation.String("id"), "{rule}": rule.String("uuid"),
		"{service}": service.String("id"), "{delivery}": delivery,
		"{suite}": suite.String("slug"), "{build_id}": build.String("id"), "{schedule}": schedule.String("id"), "{connection}": connection.String("id"),
	}
}

// webhookDelivery sends a ping to the webhook of hello and returns the id of its delivery.
func webhookDelivery(t *testing.T, s *servertest.Server, ada *servertest.Client) string {
	t.Helper()
	hook := ada.Get("/v2/organizations/acme/pipelines/hello/webhook").Want(http.StatusOK)
	return s.As(t, "").With("X-Gitlab-Event", "System Hook").With("X-Gitlab-Token", hook.String("secret")).
		Post(hook.String("url"), "{}").Want(http.StatusAccepted).String("id")
}

// fill returns a route's path with values for its wildcards; an id that does not exist if there is none.
func (w walk) fill(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if !strings.HasPrefix(segment, "{") {
			continue
		}
		segments[i] = core.NewID()
		if value, ok := w[segment]; ok {
			segments[i] = value
		}
	}
	return strings.Join(segments, "/")
}

// bearerRoutes returns the routes for access tokens. Routes that delete what others need come last.
func bearerRoutes(s *servertest.Server) []route.Route {
	var routes, deleting []route.Route
	for _, r := range s.Routes() {
		switch {
		case r.Auth != route.Bearer:
		case r.Method == http.MethodDelete:
			deleting = append(deleting, r)
		default:
			routes = append(routes, r)
		}
	}
	return append(routes, deleting...)
}

// endless reports whether a route streams its response.
func endless(r route.Route) bool { return slices.Contains(r.Media, "text/event-stream") }

// grant creates an access token of ada with some scopes.
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

func TestEveryRoute_OfBuildsIsReachedByTheWalk(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
		for _, r := range bearerRoutes(s) {
			if build := strings.Contains(r.Path, "{build}") || strings.Contains(r.Path, "{job}"); !build || r.Method != http.MethodGet {
				continue
			}
			if endless(r) {
				continue
			}
			if strings.HasSuffix(r.Path, "{upload}") || strings.Contains(r.Path, "{artifact}") { // created only by agents
				continue
			}
			s.As(t, servertest.Ada).Get(w.fill(r.Path)).Want(http.StatusOK)
		}
	})
}

func TestEveryRoute_WithoutATokenIs401(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
		for _, r := range s.Routes() {
			if r.Auth == route.Open {
				continue
			}
			resp := s.As(t, "").Do(r.Method, w.fill(r.Path), nil)
			resp.Want(http.StatusUnauthorized)
			if resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s: no WWW-Authenticate", r.Method, r.Path)
			}
			s.As(t, "svcua_unknown").Do(r.Method, w.fill(r.Path), nil).Want(http.StatusUnauthorized)
		}
	})
}

func TestEveryRoute_WithEveryScopeButItsOwnIs403(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
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
			resp := s.As(t, granted[r.Scope]).Do(r.Method, w.fill(r.Path), nil).Want(http.StatusForbidden)
			if r.Method != http.MethodHead && !strings.Contains(resp.String("message"), string(r.Scope)) {
				t.Errorf("%s %s: %q does not name the scope %s", r.Method, r.Path, resp.String("message"), r.Scope)
			}
		}
	})
}

func TestEveryRoute_WithItsScopeOnlyIsAllowed(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
		for i, r := range bearerRoutes(s) {
			if endless(r) {
				continue
			}
			token := fmt.Sprintf("svcua_only-%d", i)
			scopes := []string{string(r.Scope)}
			if r.Scope == route.NoScope {
				scopes = nil
			}
			grant(s, token, scopes)
			resp := s.As(t, token).Do(r.Method, w.fill(r.Path), nil)
			switch resp.Status {
			case http.StatusUnauthorized, http.StatusInternalServerError, http.StatusMethodNotAllowed:
				t.Errorf("%s %s with %v: status %d, %s", r.Method, r.Path, scopes, resp.Status, resp.Body)
			case http.StatusForbidden:
				if r.Method == http.MethodHead || strings.Contains(resp.String("message"), "scope") {
					t.Errorf("%s %s with %v: %s", r.Method, r.Path, scopes, resp.Body)
				}
			}
		}
	})
}

func TestEveryRoute_OfAnotherOrganizationIs404(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
		for _, r := range bearerRoutes(s) {
			if !strings.Contains(r.Path, "{org}") {
				continue
			}
			s.As(t, servertest.Cy).Do(r.Method, w.fill(r.Path), nil).Want(http.StatusNotFound)
			unknown := strings.Replace(w.fill(r.Path), "/acme", "/nobody", 1)
			s.As(t, servertest.Cy).Do(r.Method, unknown, nil).Want(http.StatusNotFound)
		}
	})
}

// Ids of one organization do not work in the paths of another.
func TestEveryRoute_WithIdsOfAnotherOrganizationIs404(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
		for _, r := range bearerRoutes(s) {
			if !strings.Contains(r.Path, "{org}/") || strings.Count(r.Path, "{") < 2 {
				continue
			}
			path := strings.Replace(w.fill(r.Path), "/acme", "/rival", 1)
			s.As(t, servertest.Cy).Do(r.Method, path, nil).Want(http.StatusNotFound)
		}
	})
}

func TestEveryRoute_OfASuspendedOrganizationIs503(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
		s.Apply("organizations: [{slug: acme, suspended: true}]")
		for _, r := range s.Routes() {
			var resp *servertest.Response
			switch {
			case r.Auth == route.Agent:
				resp = s.AsAgent(t, servertest.AcmeAgent).Do(r.Method, w.fill(r.Path), nil)
			case r.Auth == route.Bearer && strings.Contains(r.Path, "{org}"):
				resp = s.As(t, servertest.Ada).Do(r.Method, w.fill(r.Path), nil)
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

// Nonsense never causes a status of 500 or more.
func TestEveryRoute_AnswersNonsenseWith4xx(t *testing.T) {
	bodies := []string{
		`{`, `[]`, `null`, `"x"`, `{} x`, "\xff",
		`{"name": {"a": 1}, "key": [1], "cluster_id": 3, "role": 7, "slug": "\u0000"}`,
		`{"name": null, "key": null, "description": null}`,
		`{"commit": [], "branch": {}, "env": 1, "meta_data": [], "pull_request_id": {}, "states": 1, "priority": {}, "unblocker": [], "fields": 7, "body": [], "value": 3}`,
		`{"commit": "HEAD", "branch": "main", "env": {"A": [1]}, "meta_data": {"a": {}}, "fields": {"a": {}}, "unblocker": "x", "states": ",", "priority": 1e400}`,
	}
	queries := []string{
		"page=x", "per_page=0", "page=1000000&per_page=100", "after=x", "before=AAAA", "created_from=x", "state=x", "state[]=%F0%9F%98%80", "job_states[]=",
		"meta_data[=x&meta_data[]=&meta_data[%27]=%22&branch=*%25_%5C&creator=%27&commit=&step_key=%27&group_key=%22&path=**%5B&name=%25",
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := newWalk(t, s)
		send := func(r route.Route, token, query string, body any) {
			resp := s.As(t, token).Do(r.Method, w.fill(r.Path)+query, body)
			if resp.Status >= 500 {
				t.Errorf("%s %s%s with %s: status %d, %s", r.Method, r.Path, query, body, resp.Status, resp.Body)
			}
			s.Clock.Advance(time.Millisecond * 10) // for the rate limit
		}
		for _, r := range bearerRoutes(s) {
			switch r.Method {
			case http.MethodGet:
				for _, query := range queries {
					send(r, servertest.Bo, "?"+query, nil)
				}
			case http.MethodDelete:
				send(r, servertest.Bo, "?"+strings.Join(queries, "&"), nil)
			default:
				for _, body := range bodies {
					send(r, servertest.Ada, "", body)
				}
			}
		}
	})
}
