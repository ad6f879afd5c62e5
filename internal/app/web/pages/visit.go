package pages

import (
	"net/http"
	"net/url"
	"strings"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A Visit is a request for a page.
type Visit struct {
	*route.Request
	Site    *Site
	W       http.ResponseWriter
	Session *account.Session // nil: not signed in
	Live    string           // path of the stream of the page's changes; "": none
}

// A Handler serves a visit, or returns an error for the error page.
type Handler func(v *Visit) error

// Get returns the route of a page.
func (s *Site) Get(path string, h Handler) route.Route { return s.page(http.MethodGet, path, h) }

// Post returns the route of a form.
func (s *Site) Post(path string, h Handler) route.Route { return s.page(http.MethodPost, path, h) }

func (s *Site) page(method, path string, h Handler) route.Route {
	return route.Route{Method: method, Path: path, Auth: route.Open, Hidden: true, Handler: route.Visit(func(w http.ResponseWriter, r *route.Request) error {
		SetHeaders(w.Header())
		if err := s.crossSite.Check(r.Request); err != nil {
			return core.Errorf(core.Forbidden, "This request came from another site and was refused. Open Stackyard and try again there.")
		}
		v := &Visit{Request: r, Site: s, W: w}
		if err := v.Identify(); err != nil {
			return err
		}
		if err := h(v); err != nil {
			return v.explain(err)
		}
		return nil
	})}
}

// SetHeaders isolates a page: no script (see allowScript), nothing from other servers, not in frames, not cached.
func SetHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	SetPolicy(h, "'self'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	// With no-referrer, browsers send "Origin: null" with our own forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// SetPolicy sets what the page can load and where its forms can lead. Browsers also apply it to redirects after
// a form.
func SetPolicy(h http.Header, formAction string) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action "+formAction+"; base-uri 'none'; frame-ancestors 'none'")
}

// allowScript allows our own scripts and their requests to this server, unless the policy does already.
func allowScript(h http.Header) {
	if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src") {
		h.Set("Content-Security-Policy", policy+"; script-src 'self'; connect-src 'self'")
	}
}

// SetLivePolicy additionally allows our own script with its event stream, images inside logs, and artifacts as
// images.
func (s *Site) SetLivePolicy(h http.Header) {
	images := strings.TrimSpace("'self' data: " + string(s.Content))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src "+images+"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
}

// Identify loads the session and the user.
func (v *Visit) Identify() error {
	session, err := v.Site.Accounts.Session(v.Context(), v.CookieValue(v.Site.Cookies.Session), v.Origin())
	if core.KindOf(err) == core.Unauthorized {
		return nil
	}
	if err != nil {
		return err
	}
	person, err := v.Site.Directory.Person(v.Context(), session.UserID)
	if core.KindOf(err) == core.NotFound || err == nil && v.Site.Allows != nil && !v.Site.Allows(session, person) {
		return nil
	}
	v.Session, v.Caller = session, person
	return err
}

// Origin returns where the request comes from.
func (v *Visit) Origin() account.Origin {
	return account.Origin{Address: v.Address, UserAgent: v.UserAgent()}
}

// User returns the signed-in user.
func (v *Visit) User() identity.User { return v.Caller.User }

// SignedIn returns a Handler for signed-in users. Others sign in first and then return to the page.
func SignedIn(h Handler) Handler {
	return func(v *Visit) error {
		if v.Session != nil {
			return h(v)
		}
		return v.expired()
	}
}

// Redirect redirects the browser to a path of the site.
func (v *Visit) Redirect(path string) error {
	v.W.Header().Set("Location", v.Site.Prefix+path)
	v.W.WriteHeader(http.StatusSeeOther)
	return nil
}

// Done redirects to a page that shows a message.
func (v *Visit) Done(path, message string) error {
	v.Site.Cookies.setFlash(v.W, flashDone+message)
	return v.Redirect(path)
}

// Refused redirects to a page that shows why something was not done.
func (v *Visit) Refused(path, message string) error {
	v.Site.Cookies.setFlash(v.W, flashRefused+message)
	return v.Redirect(path)
}

// LocalPath returns a given path if it is in this site, or "/" for anything that could lead elsewhere.
func LocalPath(given string) string {
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

// CookieValue returns the value of a cookie, or "".
func (v *Visit) CookieValue(name string) string {
	c, err := v.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
