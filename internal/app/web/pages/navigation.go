package pages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A NavLink is a page in the navigation.
type NavLink struct {
	Section string
	Path    string
	Title   string
	About   string // description of the page
	Icon    string
	Key     string // the shortcut: g, then this key
	// Shown reports whether a visitor needs it; nil: everyone does.
	Shown func(*Visit) bool
}

// SettingsLinks returns the settings pages that the visitor can use.
func (v *Visit) SettingsLinks() []NavLink {
	return slices.DeleteFunc(slices.Clone(v.Site.Settings), func(p NavLink) bool { return p.Shown != nil && !p.Shown(v) })
}

// settingsBeside returns the visitor's settings pages if section is one of them.
func (v *Visit) settingsBeside(section string) []NavLink {
	if !slices.ContainsFunc(v.Site.Settings, func(p NavLink) bool { return p.Section == section }) {
		return nil
	}
	return v.SettingsLinks()
}

// places returns the pages of the visit's organization in the navigation.
func (v *Visit) places() []NavLink {
	home := "/" + v.Org.Slug
	return []NavLink{
		{Section: here(v.URL.Path == home || !strings.HasPrefix(v.URL.Path, "/organizations/") || v.under("pipelines")), Path: home, Title: "Pipelines", Key: "p"},
		{Section: here(v.under("builds")), Path: v.Place("builds"), Title: "Builds", Key: "b"},
		{Section: here(v.under("agents")), Path: v.Place("agents"), Title: "Agents", Key: "a"},
		{Section: here(v.under("clusters")), Path: v.Place("clusters"), Title: "Clusters", Key: "c"},
		{Section: here(v.under("analytics")), Path: SuitesPath(v.Org), Title: "Test suites", Key: "t"},
		{Section: here(v.under("settings") || v.under("pipeline-templates")), Path: v.Place("settings"), Title: "Organization", Key: "o"},
	}
}

// SettingsOfOrganization returns the links beside the settings of the visit's organization.
func (v *Visit) SettingsOfOrganization() []NavLink {
	links := []NavLink{
		{Section: "members", Path: v.Place("settings", "members"), Title: "Members", Icon: "person"},
		{Section: "teams", Path: v.Place("settings", "teams"), Title: "Teams", Icon: "shield"},
		{Section: "pipeline-settings", Path: v.Place("settings", "pipelines"), Title: "Pipeline settings", Icon: "pen"},
		{Section: "templates", Path: v.Place("pipeline-templates"), Title: "Pipeline templates", Icon: "file"},
		{Section: "connections", Path: v.Place("settings", "connections"), Title: "Source hosts", Icon: "branch"},
	}
	if v.Member.Can(identity.ManageNotificationServices, v.Org) {
		links = append(links, NavLink{Section: "services", Path: "/settings/notification-services/" + v.Org.Slug, Title: "Notification services", Icon: "bell"})
	}
	if v.Member.Can(identity.ManageApplications, v.Org) {
		links = append(links, NavLink{Section: "applications", Path: "/settings/oauth-applications", Title: "OAuth applications", Icon: "grid"})
	}
	if v.Member.Can(identity.ChangeOrganization, v.Org) {
		links = append(links, NavLink{Section: "usage", Path: v.Place("settings", "usage"), Title: "Usage and retention", Icon: "stack"})
	}
	if v.Member.Can(identity.ReadAuditTrail, v.Org) {
		links = append(links, NavLink{Section: "audit", Path: v.Place("settings", "audit"), Title: "Audit trail", Icon: "eye"})
	}
	return links
}

// OrganizationPages returns the pages of the visit's organization that a search finds.
func (v *Visit) OrganizationPages() []NavLink {
	list := v.places()
	if v.Member.Can(identity.CreatePipelines, v.Org) {
		list = append(list, NavLink{Path: v.Place("pipelines", "new"), Title: "New pipeline"})
	}
	return append(list, v.SettingsOfOrganization()...)
}

// under reports whether the page is below a path of the visit's organization.
func (v *Visit) under(segment string) bool {
	path := v.Place(segment)
	return v.URL.Path == path || strings.HasPrefix(v.URL.Path, path+"/")
}

// here marks the place of the page itself.
func here(is bool) string {
	if is {
		return "here"
	}
	return ""
}

// A Membership is an organization and the visitor's role in it.
type Membership struct {
	identity.Organization
	Role identity.Role
}

// Organizations returns the visitor's organizations, by slug.
func (v *Visit) Organizations() (list []Membership, err error) {
	ids := v.Caller.Organizations()
	err = v.Site.DB.Read(v.Context(), func(q *db.Q) error {
		orgs, _, err := identity.OrganizationsByID(q, ids, len(ids), 0)
		list = nil
		for _, o := range orgs {
			list = append(list, Membership{o, v.Caller.Membership(o.ID).Role})
		}
		return err
	})
	return list, err
}

// OrganizationsWith returns the organizations in which the visitor has a permission, by slug.
func (v *Visit) OrganizationsWith(p identity.Permission) (list []Membership, err error) {
	all, err := v.Organizations()
	for _, m := range all {
		if v.Caller.Membership(m.ID).Can(p, &m.Organization) {
			list = append(list, m)
		}
	}
	return list, err
}

// SuitesPath returns the path of the test suites of an organization, or of something below them.
func SuitesPath(org *identity.Organization, segments ...string) string {
	return core.PublicURL("").To(append([]string{"organizations", org.Slug, "analytics", "suites"}, segments...)...)
}

// A PageLink links to a page of a list.
type PageLink struct {
	Path, Text string
	Here       bool
}

// PageLinks returns links to the pages before and after the current one.
func (v *Visit) PageLinks(page route.Page, more bool, before, after string) []PageLink {
	link := func(number int, text string) PageLink {
		query := v.URL.Query()
		query.Set("page", strconv.Itoa(number))
		return PageLink{Path: (&url.URL{Path: v.URL.Path, RawQuery: query.Encode()}).String(), Text: text}
	}
	var links []PageLink
	if page.Number > 1 {
		links = append(links, link(page.Number-1, before))
	}
	if more {
		links = append(links, link(page.Number+1, after))
	}
	return links
}
