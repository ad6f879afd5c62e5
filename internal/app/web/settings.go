package web

import (
	"slices"

	"stackyard/internal/platform/route"
)

// A navLink is a page in the navigation.
type navLink struct {
	Section string
	Path    string
	Title   string
	About   string // description of the page
	Icon    string
	// shown reports whether a visitor needs it; nil: everyone does.
	shown func(*visit) bool
}

// settings lists the settings pages of a user, and those for administrators.
var settings = []navLink{
	{Section: "tokens", Path: "/settings/tokens", Title: "Access tokens", About: "Create tokens for your scripts.", Icon: "key"},
	{Section: "authorized", Path: "/settings/authorized-applications", Title: "Authorized applications", About: "Review and revoke applications that can act for you.", Icon: "shield"},
	{Section: "applications", Path: "/settings/oauth-applications", Title: "OAuth applications", About: "Register applications that can ask people for access.", Icon: "grid", shown: (*visit).administers},
	{Section: "services", Path: servicesPath, Title: "Notification services", About: "Send notifications of builds to webhooks and chats.", Icon: "bell", shown: (*visit).managesServices},
	{Section: "password", Path: "/settings/password", Title: "Password", About: "Change your password.", Icon: "lock"},
	{Section: "sessions", Path: "/settings/sessions", Title: "Sessions", About: "Review and end your sessions.", Icon: "screen"},
}

// settings returns the settings pages that the visitor can use.
func (v *visit) settings() []navLink {
	return slices.DeleteFunc(slices.Clone(settings), func(p navLink) bool { return p.shown != nil && !p.shown(v) })
}

// settingsBeside returns the visitor's settings pages if section is one of them.
func (v *visit) settingsBeside(section string) []navLink {
	if !slices.ContainsFunc(settings, func(p navLink) bool { return p.Section == section }) {
		return nil
	}
	return v.settings()
}

func (s *Site) settingsRoutes() []route.Route {
	return []route.Route{
		s.get("/settings", signedIn(func(v *visit) error { return v.redirect(settings[0].Path) })),
		s.get("/settings/tokens", signedIn(s.tokens)),
		s.get("/settings/tokens/new", signedIn(s.newToken)),
		s.post("/settings/tokens", signedIn(s.createToken)),
		s.post("/settings/tokens/{token}/revoke", signedIn(s.revokeToken)),
		s.get("/settings/authorized-applications", signedIn(s.authorized)),
		s.post("/settings/authorized-applications/{application}/{organization}/revoke", signedIn(s.revokeAuthorized)),
		s.get("/settings/oauth-applications", signedIn(s.applications)),
		s.get("/settings/oauth-applications/new", signedIn(s.newApplication)),
		s.post("/settings/oauth-applications", signedIn(s.createApplication)),
		s.get("/settings/oauth-applications/{organization}/{application}", signedIn(s.editApplication)),
		s.post("/settings/oauth-applications/{organization}/{application}", signedIn(s.changeApplication)),
		s.post("/settings/oauth-applications/{organization}/{application}/secret", signedIn(s.rotateSecret)),
		s.get("/settings/password", signedIn(s.passwordForm)),
		s.post("/settings/password", signedIn(s.changePassword)),
		s.get("/settings/sessions", signedIn(s.sessions)),
		s.post("/settings/sessions/end-others", signedIn(s.endOtherSessions)),
		s.post("/settings/sessions/{session}/end", signedIn(s.endSession)),
	}
}
