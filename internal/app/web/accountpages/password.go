package accountpages

import (
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/account"
)

// passwordPage is the data of the page to change the password.
type passwordPage struct {
	Has         bool // a password
	Email       string
	MinPassword int
	Problems    pages.Problems
}

func (s *Site) passwordForm(v *pages.Visit) error { return s.showPassword(v, http.StatusOK, nil) }

func (s *Site) showPassword(v *pages.Visit, status int, wrong pages.Problems) error {
	has, err := s.Accounts.HasPassword(v.Context(), v.User().ID)
	if err != nil {
		return err
	}
	return v.Show(status, "password", pages.View{Title: "Password", Section: "password", Page: passwordPage{has, v.User().Email, account.MinPassword, wrong}})
}

func (s *Site) changePassword(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	password := form.Get("new_password")
	if err = checkRepeated(password, form.Get("repeat_password")); err == nil {
		err = s.Accounts.ChangePassword(v.Context(), v.Session, form.Get("current_password"), password, v.Origin())
	}
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showPassword(v, http.StatusUnprocessableEntity, wrong)
	}
	if err != nil {
		return err
	}
	return v.Done("/settings/password", "Password changed. You are signed out of all other sessions.")
}
