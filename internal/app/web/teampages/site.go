// Package teampages has the pages with which people run an organization: members and invitations, teams, pipeline
// settings, connections to source hosts, pipeline templates, the audit trail, usage and retention.
//
// Like those of clusterpages, they read and change things with requests to the REST API in the name of the visitor.
package teampages

import (
	"embed"
	"slices"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/route"
)

//go:embed templates
var templates embed.FS

// Site serves the pages.
type Site struct{ *pages.Site }

// New returns the pages.
func New(base *pages.Site) *Site {
	base.AddTemplates(templates, nil)
	return &Site{Site: base}
}

// Routes returns the routes of the pages.
func (s *Site) Routes() []route.Route {
	return slices.Concat(
		[]route.Route{s.get("/settings", func(v *pages.Visit) error { return v.Redirect(v.Place("settings", "members")) })},
		s.memberRoutes(), s.teamRoutes(), s.pipelineSettingsRoutes(), s.connectionRoutes(), s.templateRoutes(), s.auditRoutes(), s.usageRoutes())
}

// get returns the route of a page for members of the organization.
func (s *Site) get(path string, h pages.Handler) route.Route {
	return s.Get("/organizations/{org}"+path, pages.MembersOnly(h))
}

// post returns the route of a form for members of the organization.
func (s *Site) post(path string, h pages.Handler) route.Route {
	return s.Post("/organizations/{org}"+path, pages.SignedIn(pages.MembersOnly(h)))
}

// show shows a page of the organization's settings.
func (s *Site) show(v *pages.Visit, status int, name, section, title string, page any) error {
	return v.Show(status, name, pages.View{Title: title, Section: section, Beside: v.SettingsOfOrganization(), BesideLabel: "Organization settings", Page: page})
}

// A person is a user in a response.
type person struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// A switched is a setting that can be turned on.
type switched struct {
	Enabled   bool       `json:"enabled"`
	EnabledAt *time.Time `json:"enabled_at"`
	EnabledBy *person    `json:"enabled_by"`
}
