// Package web is the pages that people see: signing in, letting applications act for them, their own
// settings, pipelines and builds. Everything is made on the server and works without script.
//
// A page is a route whose handler gets a [visit]: the request, who is there, and the means to answer. The
// path of a page goes through the same gates every time (visit.go): a form from another site is refused,
// the session is looked up, and a page for people who are signed in sends others to the sign-in page and
// back. A handler shows a template with what the template needs, or redirects, or returns an error, which
// becomes an error page.
//
// A page of an organization passes one more gate (within.go): what the visitor may not see is not there.
// The page of a build is made of parts (parts.go), each an element that can change by itself. It is given
// all of them, and then, over server-sent events, those that have changed (live.go); its one script,
// assets/build.js, puts them in their places.
//
// To add a page: a method of [Site] that takes a visit, a line in Routes, and a file in templates that
// defines "main". The layout, the navigation and the parts that templates share are in
// templates/layout.html and templates/parts.html; colors, spaces and components in assets/stackyard.css.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/domain/account"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// Config is what the pages stand on.
type Config struct {
	DB          *db.DB
	Directory   *identity.Directory
	Accounts    *account.Service
	OAuth       *oauth.Service
	Pipelines   *pipelines.Service
	Builds      *builds.Service
	BuildAPI    *buildapi.Service
	Artifacts   *artifacts.Service
	Annotations *annotations.Service
	Logs        *joblog.Service
	Timeline    *timeline.Service
	Bus         *bus.Bus
	Key         seal.Key
	Public      core.PublicURL
	Content     core.PublicURL // where artifacts are fetched; empty: at Public
	Clock       core.Clock
	Log         *slog.Logger
	Provider    *Provider // nil: people sign in with passwords only
	// Download returns where a browser can fetch an artifact, for a short time.
	Download func(artifacts.Artifact) (string, error)
}

// Site is all pages.
type Site struct {
	Config
	prefix    string // path of the public URL, without a slash at its end
	cookies   cookies
	crossSite *http.CrossOriginProtection
	templates templates
	provider  *singleSignOn // nil: none
	followers crowd
	watched   *bus.Watched  // builds whose pages are open
	draining  chan struct{} // closed when the server is about to stop
}

// New returns the pages. The templates are part of the program: one that is wrong panics.
func New(c Config) *Site {
	public, err := url.Parse(string(c.Public))
	if err != nil {
		panic(err) // it was checked when the settings were
	}
	s := &Site{Config: c, prefix: strings.TrimRight(public.Path, "/"), crossSite: http.NewCrossOriginProtection(), draining: make(chan struct{})}
	s.cookies = newCookies(public.Scheme == "https", s.prefix)
	// Behind a proxy the request's Host may be another than the one in the browser.
	if err := s.crossSite.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		panic(err)
	}
	s.templates = s.parseTemplates()
	s.provider = newSingleSignOn(c.Provider, c.Public, c.Clock)
	s.watched = c.Bus.Watch(builds.Topic, builds.Versions)
	return s
}

// Routes returns the routes of all pages.
func (s *Site) Routes() []route.Route {
	return slices.Concat(
		[]route.Route{
			s.get("/{$}", s.start),
			{Method: http.MethodGet, Path: "/assets/{file}", Auth: route.Open, Hidden: true, Handler: route.Raw(s.serveAsset)},
		},
		s.signInRoutes(),
		s.providerRoutes(),
		s.deviceRoutes(),
		s.authorizeRoutes(),
		s.settingsRoutes(),
		s.pipelineRoutes(),
		s.buildRoutes(),
	)
}
