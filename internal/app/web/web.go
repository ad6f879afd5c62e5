// Package web serves the pages: signing in, approving applications, personal settings, pipelines and builds.
// The server renders everything, and pages work without JavaScript.
//
// A page is a route whose handler gets a [visit]: the request, the user and the response. Every page passes the
// same checks (visit.go): forms from other sites are refused, the session is loaded, and pages for signed-in
// users redirect others to the sign-in page and back. A handler shows a template, redirects, or returns an
// error, which becomes an error page.
//
// Pages of an organization pass one more check (within.go): what the visitor cannot see does not exist. The
// page of a build consists of parts (parts.go), elements that change independently. It is rendered with all of
// them and then receives those that have changed as server-sent events (live.go); its one script,
// assets/build.js, replaces them.
//
// To add a page, add a method of [Site] that takes a visit, a line in Routes, and a file in templates that
// defines "main". The layout, the navigation and shared parts are in templates/layout.html and
// templates/parts.html; colors, spaces and components in assets/stackyard.css.
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
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/remoteaccess"
	"stackyard/internal/domain/schedules"
	"stackyard/internal/domain/suites"
	"stackyard/internal/domain/testresults"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// Config contains the dependencies of the pages.
type Config struct {
	DB            *db.DB
	Directory     *identity.Directory
	Accounts      *account.Service
	OAuth         *oauth.Service
	Pipelines     *pipelines.Service
	Builds        *lifecycle.Service
	BuildAPI      *buildapi.Service
	Artifacts     *artifacts.Service
	Annotations   *annotations.Service
	Logs          *joblog.Service
	Timeline      *timeline.Service
	Notifications *notifications.Service
	Deliveries    *delivery.Service
	Schedules     *schedules.Service
	Remote        *remoteaccess.Service
	Suites        *suites.Service
	TestResults   *testresults.Service
	Bus           *bus.Bus
	Key           seal.Key
	Public        core.PublicURL
	Content       core.PublicURL // origin of artifacts; empty: Public
	Clock         core.Clock
	Log           *slog.Logger
	Provider      *Provider // nil: passwords only
	// Download returns a temporary URL of an artifact's content.
	Download func(artifacts.Artifact) (string, error)
}

// Site serves all pages.
type Site struct {
	Config
	prefix    string // path of the public URL, without a trailing slash
	cookies   cookies
	crossSite *http.CrossOriginProtection
	templates templates
	provider  *singleSignOn // nil: none
	followers streamLimiter
	watched   *bus.Watched  // builds with open pages
	draining  chan struct{} // closed when the server drains
}

// New returns a Site. It panics if an embedded template is invalid.
func New(c Config) *Site {
	public, err := url.Parse(string(c.Public))
	if err != nil {
		panic(err) // checked with the settings
	}
	s := &Site{Config: c, prefix: strings.TrimRight(public.Path, "/"), crossSite: http.NewCrossOriginProtection(), draining: make(chan struct{})}
	s.cookies = newCookies(public.Scheme == "https", s.prefix)
	// Behind a proxy, the Host of the request can differ from the one in the browser.
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
		s.serviceRoutes(),
		s.suiteRoutes(),
		s.pipelineRoutes(),
		s.buildRoutes(),
		s.remoteRoutes(),
	)
}
