// Package accountpages has the pages of a user: signing in with a password, a link or a provider, approving
// applications and devices, and personal settings.
package accountpages

import (
	"embed"
	"slices"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/route"
)

//go:embed templates
var templates embed.FS

// Site serves the pages of a user.
type Site struct {
	*pages.Site
	OAuth *oauth.Service
	// Organizations accepts invitations.
	Organizations *organizations.Service
	provider      *singleSignOn // nil: none
}

// New returns the pages of a user. provider is nil if people sign in with passwords only.
func New(base *pages.Site, oauth *oauth.Service, orgs *organizations.Service, provider *Provider) *Site {
	s := &Site{Site: base, OAuth: oauth, Organizations: orgs, provider: newSingleSignOn(provider, base.Public, base.Clock)}
	base.Allows = s.allows
	base.AddTemplates(templates, nil)
	return s
}

// Routes returns the routes of the pages.
func (s *Site) Routes() []route.Route {
	return slices.Concat(s.signInRoutes(), s.signUpRoutes(), s.providerRoutes(), s.deviceRoutes(), s.authorizeRoutes(), s.settingsRoutes())
}
