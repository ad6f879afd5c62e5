package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/route"
)

// furnish creates one of everything whose view has a web_url, and returns the values of path segments.
func furnish(t *testing.T, s *servertest.Server) map[string]string {
	t.Helper()
	const acme = "/v2/organizations/acme"
	ada := s.As(t, servertest.Ada)
	s.Apply(`organizations: [{slug: acme, clusters: [{name: Hosted, hosted: true, queues: [{key: linux, hosted: {platform: linux}}]}]}]`)
	agent := s.Register(t, map[string]any{"name": "worker-1", "hostname": "box", "version": "1.0"})
	build := ada.Post(acme+"/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	template := ada.Post(acme+"/pipeline-templates", map[string]any{"name": "Shared", "configuration": "steps: [{command: date}]"}).Want(http.StatusCreated)
	secret := ada.Post(acme+"/clusters/"+servertest.AcmeClusterID+"/secrets", map[string]any{"key": "KEY", "value": "x"}).Want(http.StatusCreated)
	upload := newSuite(t, s)
	run := upload("one", "abc", "adds", "passed")
	_ = agent
	return map[string]string{
		"{org}": "acme", "{pipeline}": "hello", "{build}": "1", "{job}": build.String("jobs.0.id"), "{cluster}": servertest.AcmeClusterID, "{queue}": servertest.AcmeQueueID,
		"{template}": template.String("uuid"), "{secret}": secret.String("id"), "{suite}": "unit", "{run}": run, "{team}": "everyone", "{user}": servertest.AdaID,
		"{agent}": ada.Get(acme + "/agents").Want(200).String("0.id"), "{build_id}": build.String("id"),
	}
}

// webURLs returns the values of web_url fields in JSON.
func webURLs(value any) (found []string) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			found = append(found, webURLs(item)...)
		}
	case map[string]any:
		for key, item := range v {
			if url, ok := item.(string); ok && key == "web_url" && url != "" {
				found = append(found, url)
			}
			found = append(found, webURLs(item)...)
		}
	}
	return found
}

// Every web_url in a response of the API leads to a page, for administrators and for members.
func TestWebURLs_LeadToPages(t *testing.T) {
	s := onSQLite(t)
	values := furnish(t, s)
	seen := map[string]bool{}
	ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
	for _, r := range s.Routes() {
		if r.Method != http.MethodGet || r.Auth != route.Bearer || strings.Contains(r.Path, "/log") || strings.Contains(r.Path, "env.txt") {
			continue
		}
		path := r.Path
		for name, value := range values {
			path = strings.ReplaceAll(path, name, value)
		}
		if strings.Contains(path, "{") {
			continue // something that the list beside it has too
		}
		resp := s.As(t, servertest.Ada).Get(path)
		var body any
		if resp.Status != http.StatusOK || json.Unmarshal(resp.Body, &body) != nil {
			continue
		}
		for _, url := range webURLs(body) {
			at := strings.TrimPrefix(url, s.URL)
			if seen[at] {
				continue
			}
			seen[at] = true
			at, _, _ = strings.Cut(at, "#")
			ada.get(at).want(200)
			bo.get(at).want(200)
		}
	}
	for _, kind := range []string{"/acme", "/acme/hello", "/agents/", "/clusters/", "/queues/", "/pipeline-templates/", "/analytics/suites/", "/runs/", "/tests/"} {
		found := false
		for at := range seen {
			found = found || strings.Contains(at, kind)
		}
		if !found {
			t.Errorf("no web_url with %s among %d", kind, len(seen))
		}
	}
}
