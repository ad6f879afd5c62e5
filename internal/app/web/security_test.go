package web_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// pageRoutes are the routes of pages, by method.
func pageRoutes(s *servertest.Server, method string) []route.Route {
	var pages []route.Route
	for _, r := range s.Routes() {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		switch {
		case r.Method != method || r.Auth != route.Open || !r.Hidden:
		case first == "login" || first == "logout" || first == "settings" || strings.HasPrefix(r.Path, "/oauth/device") || r.Path == "/oauth/authorize":
			pages = append(pages, r)
		}
	}
	return pages
}

func fillPath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") {
			segments[i] = core.NewID()
		}
	}
	return strings.Join(segments, "/")
}

// Forms from another site have no effect.
func TestEveryForm_FromAnotherSiteIsRefused(t *testing.T) {
	s := onSQLite(t)
	forms := pageRoutes(s, http.MethodPost)
	if len(forms) < 6 {
		t.Fatalf("only %d forms", len(forms))
	}
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}},
		{"Sec-Fetch-Site": {"same-site"}},
		{"Origin": {"https://evil.test"}},
		{"Origin": {"null"}},
	} {
		v := signIn(t, s, "ada@acme.test")
		v.header.Del("Sec-Fetch-Site")
		for name, values := range header {
			v.header[name] = values
		}
		for _, r := range forms {
			v.post(fillPath(r.Path), "email", "ada@acme.test", "password", password).want(403, "came from another site")
		}
		v.get("/").want(200, "Hello, Ada")
	}
}

// Without its cookie a browser has no session, wherever the form comes from.
func TestEveryForm_WithoutASessionLeadsToSigningIn(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, r := range pageRoutes(s, method) {
			if strings.HasPrefix(r.Path, "/log") {
				continue
			}
			p := visit(t, s).send(method, fillPath(r.Path), url.Values{})
			if p.Status != http.StatusSeeOther || !strings.HasPrefix(p.Header.Get("Location"), "/login?return_to=") {
				t.Errorf("%s %s: status %d to %q", method, r.Path, p.Status, p.Header.Get("Location"))
			}
		}
	}
}

func TestEveryPage_RunsOnlyItsOwnScriptAndIsNotFramedOrCached(t *testing.T) {
	s := onSQLite(t)
	ada := signIn(t, s, "ada@acme.test")
	paths := []string{"/", "/nothing", "/settings/sessions/x/y"}
	for _, r := range pageRoutes(s, http.MethodGet) {
		paths = append(paths, fillPath(r.Path))
	}
	for _, v := range []*visitor{ada, visit(t, s)} {
		for _, path := range paths {
			p := v.get(path)
			policy := p.Header.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
				if !strings.Contains(policy, want) {
					t.Errorf("%s: the policy %q has no %s", path, policy, want)
				}
			}
			if strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") && !strings.Contains(policy, "script-src 'self';") {
				t.Errorf("%s: the policy is %q", path, policy)
			}
			// People sign in and approve things on pages without any script.
			if focused := strings.Contains(p.Body, `class="focused"`); focused && strings.Contains(policy, "script-src") {
				t.Errorf("%s: the policy of a page without script is %q", path, policy)
			}
			for name, want := range map[string]string{
				"X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "Content-Type": "text/html; charset=utf-8",
			} {
				if got := p.Header.Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", path, name, got, want)
				}
			}
		}
	}
}

func TestNames_AreTextAndNeverMarkup(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	const evil = `"><script>alert(1)</script>`
	s.Apply(`organizations: [{slug: acme, name: '` + evil + `', members: [{email: ada@acme.test, name: '` + evil + `', password: ` + password + `}]}]`)
	v := signIn(t, s, "ada@acme.test")
	v.header.Set("User-Agent", evil)
	paths := []string{"/"}
	for _, p := range pageRoutes(s, http.MethodGet) {
		paths = append(paths, fillPath(p.Path))
	}
	for _, path := range append(paths, "/login?return_to=/"+url.QueryEscape(evil), "/"+url.PathEscape(evil)) {
		if p := v.get(path); strings.Contains(p.Body, "<script>") {
			t.Errorf("%s: %s", path, p.Body)
		}
	}
	stranger := visit(t, s)
	if p := stranger.post("/login", "email", evil, "password", "x", "return_to", "/"+evil).want(422); strings.Contains(p.Body, "<script") {
		t.Errorf("sign-in: %s", p.Body)
	}
}

// Cookies have the strictest attributes that the public URL allows.
func TestCookies_AreMarkedByHowPeopleReachTheServer(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	key := seal.NewKey()
	if _, err := orgfile.Apply(t.Context(), d, key, core.SystemClock, []byte(`organizations: [{slug: acme, members: [{email: ada@acme.test, password: `+password+`}]}]`)); err != nil {
		t.Fatal(err)
	}
	for public, want := range map[core.PublicURL]struct {
		name, path, home string
		secure           bool
	}{
		"https://ci.test":    {"__Host-stackyard", "/", "/", true},
		"https://ci.test/ci": {"__Secure-stackyard", "/ci/", "/ci/", true},
		"http://ci.test":     {"stackyard", "/", "/", false},
	} {
		wired, err := server.New(server.Parts{DB: d, Key: key, Public: public, Clock: core.SystemClock, Version: "test", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		// The proxy in front has another host name than the browser uses.
		req := httptest.NewRequest("POST", "http://10.0.0.7/login", strings.NewReader(url.Values{"email": {"ada@acme.test"}, "password": {password}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", strings.TrimSuffix(string(public), "/ci"))
		w := httptest.NewRecorder()
		wired.ServeHTTP(w, req)
		resp := w.Result()
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != want.home {
			t.Fatalf("%s: %d to %q: %s", public, resp.StatusCode, resp.Header.Get("Location"), w.Body)
		}
		c := resp.Cookies()[0]
		if c.Name != want.name || c.Path != want.path || c.Secure != want.secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" {
			t.Errorf("%s: the cookie is %s", public, c)
		}
	}
}

func TestAssets_AreKeptForEverUnderTheirHash(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	v := visit(t, s)
	css := v.get("/login").find(`<link rel="stylesheet" href="([^"]*)">`)
	p := v.get(css).want(200)
	if p.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || p.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%s: %v", css, p.Header)
	}
	v.get("/assets/stackyard.css").want(404, "Page not found")
}
