package accountpages

import (
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/account"
)

func (s *Site) sessions(v *pages.Visit) error {
	list, err := s.Accounts.Sessions(v.Context(), v.User().ID)
	if err != nil {
		return err
	}
	return v.Show(http.StatusOK, "sessions", pages.View{Title: "Sessions", Section: "sessions", Page: struct {
		Sessions []account.Session
		Here     string
	}{list, v.Session.ID}})
}

func (s *Site) endSession(v *pages.Visit) error {
	id, err := v.PathID("session", "Session not found. It may have ended already.")
	if err != nil {
		return err
	}
	if err := s.Accounts.EndSession(v.Context(), v.User().ID, id); err != nil {
		return err
	}
	return v.Done("/settings/sessions", "Session ended.")
}

func (s *Site) endOtherSessions(v *pages.Visit) error {
	if err := s.Accounts.EndOtherSessions(v.Context(), v.Session); err != nil {
		return err
	}
	return v.Done("/settings/sessions", "Signed out of all other sessions.")
}
