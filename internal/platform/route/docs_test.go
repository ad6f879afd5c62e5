package route

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestDocs_AreMadeOfWhatTheServerHas(t *testing.T) {
	names := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from "([^"]+)"`)
	server := docsServer()
	toSee, seen := []string{"/docs"}, map[string]bool{}
	for len(toSee) > 0 {
		at := toSee[0]
		toSee = toSee[1:]
		if seen[at] || at == "/openapi.json" || at == "/" { // the server's own
			continue
		}
		seen[at] = true
		page := getDocs(server, at, "")
		if page.Code != http.StatusOK || page.Header().Get("Content-Type") == "" {
			t.Errorf("%s: status %d, type %q", at, page.Code, page.Header().Get("Content-Type"))
		}
		for _, match := range names.FindAllStringSubmatch(page.Body.String(), -1) {
			toSee = append(toSee, path.Join(path.Dir(at), match[1]+match[2]))
		}
	}
	for _, r := range DocsRoutes() {
		if !seen[r.Path] {
			t.Errorf("nothing leads to %s", r.Path)
		}
	}
}

func TestDocs_TakeNothingFromElsewhere(t *testing.T) {
	server := docsServer()
	for _, r := range DocsRoutes() {
		page := getDocs(server, r.Path, "")
		text := strings.ReplaceAll(page.Body.String(), `xmlns="http://www.w3.org/2000/svg"`, "")
		if elsewhere := regexp.MustCompile(`(?:https?:|["'(])//\S*|style="|onclick="|<script>`).FindString(text); elsewhere != "" {
			t.Errorf("%s has %s", r.Path, elsewhere)
		}
		policy := page.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", r.Path, policy)
		}
	}
}

func TestDocs_AreAskedForOnce(t *testing.T) {
	server := docsServer()
	for _, r := range DocsRoutes() {
		first := getDocs(server, r.Path, "")
		if again := getDocs(server, r.Path, first.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s: status %d for what the browser has", r.Path, again.Code)
		}
	}
}

func TestDocs_LeadBackFromATrailingSlash(t *testing.T) {
	page := getDocs(docsServer(), "/docs/?x=1", "")
	if page.Code != http.StatusPermanentRedirect || page.Header().Get("Location") != "../docs" {
		t.Errorf("status %d, location %q", page.Code, page.Header().Get("Location"))
	}
}

func docsServer() *Server {
	return New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, DocsRoutes())
}

func getDocs(s *Server, path, etag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}
