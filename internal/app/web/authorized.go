package web

import (
	"net/http"

	"stackyard/internal/domain/oauth"
)

func (s *Site) authorized(v *visit) error {
	list, err := s.OAuth.AuthorizedApplications(v.Context(), v.user().ID)
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
	return v.show(http.StatusOK, "authorized", view{Title: "Authorized applications", Section: "authorized", Page: page})
}

func (s *Site) revokeAuthorized(v *visit) error {
	const gone = "This application is not authorized. It may already be revoked."
	application, err := v.PathID("application", gone)
	if err != nil {
		return err
	}
	organization, err := v.PathID("organization", gone)
	if err != nil {
		return err
	}
	if err := s.OAuth.RevokeApplication(v.Context(), v.user().ID, application, organization); err != nil {
		return err
	}
	return v.done("/settings/authorized-applications", "Application revoked. Its tokens no longer work.")
}
