package web

import (
	"net/http"

	"stackyard/internal/domain/account"
)

// passwordPage is the data of the page to change the password.
type passwordPage struct {
	Has         bool // a password
	Email       string
	MinPassword int
	Problems    problems
}

func (s *Site) passwordForm(v *visit) error { return s.showPassword(v, http.StatusOK, nil) }

func (s *Site) showPassword(v *visit, status int, wrong problems) error {
	has, err := s.Accounts.HasPassword(v.Context(), v.user().ID)
	if err != nil {
		return err
	}
	return v.show(status, "password", view{Title: "Password", Section: "password", Page: passwordPage{has, v.user().Email, account.MinPassword, wrong}})
}

func (s *Site) changePassword(v *visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	password := form.Get("new_password")
	if err = checkRepeated(password, form.Get("repeat_password")); err == nil {
		err = s.Accounts.ChangePassword(v.Context(), v.session, form.Get("current_password"), password, v.origin())
	}
	if wrong, ok := problemsOf(err); ok {
		return s.showPassword(v, http.StatusUnprocessableEntity, wrong)
	}
	if err != nil {
		return err
	}
	return v.done("/settings/password", "Password changed. You are signed out of all other sessions.")
}
