// Package orgpages has the pages of an organization: notification services with their deliveries, and test suites.
package orgpages

import (
	"embed"
	"html/template"
	"slices"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/suites"
	"stackyard/internal/domain/testresults"
	"stackyard/internal/platform/route"
)

//go:embed templates
var templates embed.FS

// Config contains the dependencies of the pages.
type Config struct {
	Notifications *notifications.Service
	Deliveries    *delivery.Service
	Suites        *suites.Service
	TestResults   *testresults.Service
}

// Site serves the pages of organizations.
type Site struct {
	*pages.Site
	Config
}

// New returns the pages of organizations.
func New(base *pages.Site, c Config) *Site {
	base.AddTemplates(templates, template.FuncMap{
		"scope": func(scope string) string { return serviceScopes[notifications.Scope(scope)] },
		"entry": func(in notifications.Input, wrong pages.Problems) serviceEntry { return serviceEntry{in, wrong} },
	})
	return &Site{Site: base, Config: c}
}

// Routes returns the routes of the pages.
func (s *Site) Routes() []route.Route { return slices.Concat(s.serviceRoutes(), s.suiteRoutes()) }

// Links are the settings pages for people who manage an organization.
func (s *Site) Links() []pages.NavLink {
	return []pages.NavLink{
		{Section: "services", Path: servicesPath, Title: "Notification services", About: "Send notifications of builds to webhooks and chats.", Icon: "bell", Shown: s.managesServices},
	}
}
