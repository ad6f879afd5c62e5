package web

import (
	"net/http"

	"stackyard/internal/domain/account"
)

func (s *Site) sessions(v *visit) error {
	list, err := s.Accounts.Sessions(v.Context(), v.user().ID)
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "sessions", view{Title: "Sessions", Section: "sessions", Page: struct {
		Sessions []account.Session
		Here     string
	}{list, v.session.ID}})
}

func (s *Site) endSession(v *visit) error {
	id, err := v.PathID("session", "Session not found. It may have ended already.")
	if err != nil {
		return err
	}
	if err := s.Accounts.EndSession(v.Context(), v.user().ID, id); err != nil {
		return err
	}
	return v.done("/settings/sessions", "Session ended.")
}

func (s *Site) endOtherSessions(v *visit) error {
	if err := s.Accounts.EndOtherSessions(v.Context(), v.session); err != nil {
		return err
	}
	return v.done("/settings/sessions", "Signed out of all other sessions.")
}
