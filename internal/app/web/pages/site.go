// Package pages is what all pages have in common: the layout, assets, cookies, the session of the visitor, forms,
// and how times, sizes and charts are written. The server renders everything, and pages work without JavaScript.
//
// A page is a route whose handler gets a [Visit]: the request, the user and the response. Every page passes the
// same checks (visit.go): forms from other sites are refused, the session is loaded, and pages for signed-in
// users redirect others to the sign-in page and back. A handler shows a template, redirects, or returns an
// error, which becomes an error page. Pages of an organization pass one more check (within.go): what the visitor
// cannot see does not exist.
package pages

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// Config contains what all pages depend on.
type Config struct {
	DB        *db.DB
	Directory *identity.Directory
	Accounts  *account.Service
	Key       seal.Key
	Public    core.PublicURL
	Content   core.PublicURL // origin of artifacts; empty: Public
	Clock     core.Clock
	Log       *slog.Logger
}

// Site is the base of all pages. The packages of pages embed it and add their templates and settings to it before
// the first request.
type Site struct {
	Config
	Prefix  string // path of the public URL, without a trailing slash
	Cookies Cookies
	// Settings are the links beside the settings pages.
	Settings []NavLink
	// Allows reports whether a session can be used by a user; nil: every session can.
	Allows func(*account.Session, *identity.Caller) bool

	crossSite *http.CrossOriginProtection
	templates templates
}

// New returns a Site with the layout and the error page.
func New(c Config) *Site {
	public, err := url.Parse(string(c.Public))
	if err != nil {
		panic(err) // checked with the settings
	}
	s := &Site{Config: c, Prefix: strings.TrimRight(public.Path, "/"), crossSite: http.NewCrossOriginProtection(), templates: make(templates)}
	s.Cookies = newCookies(public.Scheme == "https", s.Prefix)
	// Behind a proxy, the Host of the request can differ from the one in the browser.
	if err := s.crossSite.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		panic(err)
	}
	s.AddTemplates(templateFiles, nil)
	return s
}

// Routes returns the routes of assets.
func (s *Site) Routes() []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: "/assets/{file}", Auth: route.Open, Hidden: true, Handler: route.Raw(s.serveAsset)},
		{Method: http.MethodGet, Path: "/assets/modules/{path...}", Auth: route.Open, Hidden: true, Handler: route.Raw(s.serveModule)},
	}
}
