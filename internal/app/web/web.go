// Package web serves the pages. It puts together what the packages below it have: [pages] is the base of all of
// them, and accountpages, buildpages, pipelinepages, clusterpages, teampages, orgpages and searchpages have the pages themselves.
//
// To add a page, add a method that takes a visit to the Site of one of these packages, a line in its routes, and a
// file in its templates that defines "main". The layout, the navigation and shared parts are in
// pages/templates/layout.html and parts.html; colors, spaces and components in pages/assets/stackyard.css.
package web

import (
	"embed"
	"slices"

	"stackyard/internal/app/web/accountpages"
	"stackyard/internal/app/web/buildpages"
	"stackyard/internal/app/web/clusterpages"
	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/orgpages"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/app/web/pipelinepages"
	"stackyard/internal/app/web/searchpages"
	"stackyard/internal/app/web/teampages"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/route"
)

//go:embed templates
var templates embed.FS

// Config contains the dependencies of the pages.
type Config struct {
	Base          pages.Config
	Bus           *bus.Bus
	OAuth         *oauth.Service
	Members       *organizations.Service
	Provider      *accountpages.Provider // nil: passwords only
	Builds        buildpages.Config
	Pipelines     pipelinepages.Config
	Organizations orgpages.Config
	Clusters      clusterpages.Config
	Search        searchpages.Config
}

// Site serves all pages.
type Site struct {
	*pages.Site
	account       *accountpages.Site
	live          *live.Hub
	builds        *buildpages.Site
	pipelines     *pipelinepages.Site
	organizations *orgpages.Site
	clusters      *clusterpages.Site
	teams         *teampages.Site
	search        *searchpages.Site
}

// New returns a Site.
func New(c Config) *Site {
	base := pages.New(c.Base)
	base.AddTemplates(templates, nil)
	hub := live.New(base, c.Bus)
	c.Builds.Live, c.Pipelines.Live, c.Clusters.Live = hub, hub, hub
	c.Builds.Bus = c.Bus
	s := &Site{
		live:          hub,
		Site:          base,
		account:       accountpages.New(base, c.OAuth, c.Members, c.Provider),
		builds:        buildpages.New(base, c.Builds),
		pipelines:     pipelinepages.New(base, c.Pipelines),
		organizations: orgpages.New(base, c.Organizations),
		clusters:      clusterpages.New(base, c.Clusters),
		teams:         teampages.New(base),
		search:        searchpages.New(base, c.Search),
	}
	base.Settings = slices.Concat(s.account.Links(), s.organizations.Links())
	return s
}

// Routes returns the routes of all pages.
func (s *Site) Routes() []route.Route {
	return slices.Concat(
		s.live.Page("/{$}", func(h pages.Handler) pages.Handler { return h }, s.start, s.watchHome),
		s.Site.Routes(),
		s.account.Routes(),
		s.organizations.Routes(),
		s.clusters.Routes(),
		s.teams.Routes(),
		s.pipelines.Routes(),
		s.builds.Routes(),
		s.search.Routes(),
	)
}

// Drain ends all streams, so that pages reconnect to another replica.
func (s *Site) Drain() { s.live.Drain() }
