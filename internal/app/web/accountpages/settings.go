package accountpages

import (
	"slices"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Links are the settings pages of a user.
func (s *Site) Links() []pages.NavLink {
	return []pages.NavLink{
		{Section: "tokens", Path: tokensPath, Title: "Access tokens", About: "Create tokens for your scripts.", Icon: "key"},
		{Section: "authorized", Path: "/settings/authorized-applications", Title: "Authorized applications", About: "Review and revoke applications that can act for you.", Icon: "shield"},
		{Section: "applications", Path: "/settings/oauth-applications", Title: "OAuth applications", About: "Register applications that can ask people for access.", Icon: "grid", Shown: administers},
		{Section: "password", Path: "/settings/password", Title: "Password", About: "Change your password.", Icon: "lock"},
		{Section: "sessions", Path: "/settings/sessions", Title: "Sessions", About: "Review and end your sessions.", Icon: "screen"},
	}
}

const tokensPath = "/settings/tokens"

// administers reports whether the visitor is an administrator of any organization.
func administers(v *pages.Visit) bool {
	return slices.ContainsFunc(v.Caller.Organizations(), func(id string) bool { return v.Caller.Membership(id).Role == identity.Admin })
}

func (s *Site) settingsRoutes() []route.Route {
	return []route.Route{
		s.Get("/settings", pages.SignedIn(func(v *pages.Visit) error { return v.Redirect(tokensPath) })),
		s.Get("/settings/tokens", pages.SignedIn(s.tokens)),
		s.Get("/settings/tokens/new", pages.SignedIn(s.newToken)),
		s.Post("/settings/tokens", pages.SignedIn(s.createToken)),
		s.Post("/settings/tokens/{token}/revoke", pages.SignedIn(s.revokeToken)),
		s.Get("/settings/authorized-applications", pages.SignedIn(s.authorized)),
		s.Post("/settings/authorized-applications/{application}/{organization}/revoke", pages.SignedIn(s.revokeAuthorized)),
		s.Get("/settings/oauth-applications", pages.SignedIn(s.applications)),
		s.Get("/settings/oauth-applications/new", pages.SignedIn(s.newApplication)),
		s.Post("/settings/oauth-applications", pages.SignedIn(s.createApplication)),
		s.Get("/settings/oauth-applications/{organization}/{application}", pages.SignedIn(s.editApplication)),
		s.Post("/settings/oauth-applications/{organization}/{application}", pages.SignedIn(s.changeApplication)),
		s.Post("/settings/oauth-applications/{organization}/{application}/secret", pages.SignedIn(s.rotateSecret)),
		s.Get("/settings/password", pages.SignedIn(s.passwordForm)),
		s.Post("/settings/password", pages.SignedIn(s.changePassword)),
		s.Get("/settings/sessions", pages.SignedIn(s.sessions)),
		s.Post("/settings/sessions/end-others", pages.SignedIn(s.endOtherSessions)),
		s.Post("/settings/sessions/{session}/end", pages.SignedIn(s.endSession)),
	}
}
