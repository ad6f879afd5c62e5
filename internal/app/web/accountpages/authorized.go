package accountpages

import (
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/oauth"
)

func (s *Site) authorized(v *pages.Visit) error {
	list, err := s.OAuth.AuthorizedApplications(v.Context(), v.User().ID)
	if err != nil {
		return err
	}
	type shown struct {
		oauth.AuthorizedApplication
		Asked requestedScopes
	}
	page := make([]shown, len(list))
	for i, a := range list {
		page[i] = shown{a, describeScopes(a.Scopes)}
	}
	return v.Show(http.StatusOK, "authorized", pages.View{Title: "Authorized applications", Section: "authorized", Page: page})
}

func (s *Site) revokeAuthorized(v *pages.Visit) error {
	const gone = "This application is not authorized. It may already be revoked."
	application, err := v.PathID("application", gone)
	if err != nil {
		return err
	}
	organization, err := v.PathID("organization", gone)
	if err != nil {
		return err
	}
	if err := s.OAuth.RevokeApplication(v.Context(), v.User().ID, application, organization); err != nil {
		return err
	}
	return v.Done("/settings/authorized-applications", "Application revoked. Its tokens no longer work.")
}
