package web

import (
	"net/http"
	"net/url"
	"strings"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A visit is a request for a page.
type visit struct {
	*route.Request
	site    *Site
	w       http.ResponseWriter
	session *account.Session // nil: not signed in
}

// A handler serves a visit, or returns an error for the error page.
type handler func(v *visit) error

func (s *Site) get(path string, h handler) route.Route { return s.page(http.MethodGet, path, h) }

func (s *Site) post(path string, h handler) route.Route { return s.page(http.MethodPost, path, h) }

func (s *Site) page(method, path string, h handler) route.Route {
	return route.Route{Method: method, Path: path, Auth: route.Open, Hidden: true, Handler: route.Visit(func(w http.ResponseWriter, r *route.Request) error {
		setHeaders(w.Header())
		if err := s.crossSite.Check(r.Request); err != nil {
			return core.Errorf(core.Forbidden, "This request came from another site and was refused. Open Stackyard and try again there.")
		}
		v := &visit{Request: r, site: s, w: w}
		if err := v.identify(); err != nil {
			return err
		}
		return h(v)
	})}
}

// setHeaders isolates a page: no script, nothing from other servers, not in frames, not cached.
func setHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	setPolicy(h, "'self'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	// With no-referrer, browsers send "Origin: null" with our own forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// setPolicy sets what the page can load and where its forms can lead. Browsers also apply it to redirects after
// a form.
func setPolicy(h http.Header, formAction string) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action "+formAction+"; base-uri 'none'; frame-ancestors 'none'")
}

// setLivePolicy additionally allows our own script with its event stream, images inside logs, and artifacts as
// images.
func (s *Site) setLivePolicy(h http.Header) {
	images := strings.TrimSpace("'self' data: " + string(s.Content))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src "+images+"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
}

// identify loads the session and the user.
func (v *visit) identify() error {
	session, err := v.site.Accounts.Session(v.Context(), v.cookie(v.site.cookies.session), v.origin())
	if core.KindOf(err) == core.Unauthorized {
		return nil
	}
	if err != nil {
		return err
	}
	person, err := v.site.Directory.Person(v.Context(), session.UserID)
	if core.KindOf(err) == core.NotFound || err == nil && v.site.mustUseProvider(session, person) {
		return nil
	}
	v.session, v.Caller = session, person
	return err
}

// origin returns where the request comes from.
func (v *visit) origin() account.Origin {
	return account.Origin{Address: v.Address, UserAgent: v.UserAgent()}
}

// user returns the signed-in user.
func (v *visit) user() identity.User { return v.Caller.User }

// signedIn returns a handler for signed-in users. Others sign in first and then return to the page. A submitted
// form is lost, so that it does not run for the next user who signs in.
func signedIn(h handler) handler {
	return func(v *visit) error {
		if v.session != nil {
			return h(v)
		}
		back := "/"
		if v.Method == http.MethodGet {
			back = v.URL.RequestURI()
		}
		return v.redirect("/login?" + url.Values{"return_to": {back}}.Encode())
	}
}

// redirect redirects the browser to a path of the site.
func (v *visit) redirect(path string) error {
	v.w.Header().Set("Location", v.site.prefix+path)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// done redirects to a page that shows a message.
func (v *visit) done(path, message string) error {
	v.site.cookies.setFlash(v.w, message)
	return v.redirect(path)
}

// localPath returns a given path if it is in this site, or "/" for anything that could lead elsewhere.
func localPath(given string) string {
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return "/"
	}
	// Browsers treat a backslash as a slash, and two slashes as the beginning of another host.
	if !strings.HasPrefix(given, "/") || strings.HasPrefix(given, "//") || strings.ContainsFunc(given, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) {
		return "/"
	}
	return given
}

// cookie returns the value of a cookie, or "".
func (v *visit) cookie(name string) string {
	c, err := v.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
