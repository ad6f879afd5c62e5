package web

import (
	"net/http"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Site) signInRoutes() []route.Route {
	return []route.Route{
		s.get("/login", s.signInPage),
		s.post("/login", s.signIn),
		s.get("/login/link/{token}", s.linkPage),
		s.post("/login/link/{token}", s.useLink),
		s.post("/logout", s.signOut),
	}
}

// signInForm is the data of the sign-in page.
type signInForm struct {
	Email    string
	ReturnTo string
	Provider string // that people can sign in with instead; "" for none
	Problem  string
}

func (s *Site) showSignIn(v *visit, status int, form signInForm) error {
	if s.provider != nil {
		form.Provider = s.provider.Name()
	}
	return v.show(status, "signin", view{Title: "Sign in", Focused: true, Page: form})
}

func (s *Site) signInPage(v *visit) error {
	to := localPath(v.FormQuery("return_to"))
	if v.session != nil {
		return v.redirect(to)
	}
	return s.showSignIn(v, http.StatusOK, signInForm{ReturnTo: to})
}

func (s *Site) signIn(v *visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	to := localPath(form.Get("return_to"))
	value, err := s.Accounts.SignIn(v.Context(), form.Get("email"), form.Get("password"), v.origin(), v.cookie(s.cookies.session))
	if wrong, ok := problemsOf(err); ok {
		return s.showSignIn(v, http.StatusUnprocessableEntity, signInForm{Email: form.Get("email"), ReturnTo: to, Problem: wrong[""]})
	}
	if err != nil {
		return err
	}
	allowed, err := s.allowPassword(v, value)
	if err != nil {
		return err
	}
	if !allowed {
		return s.showSignIn(v, http.StatusForbidden, signInForm{ReturnTo: to, Problem: "One of your organizations requires you to sign in with " + s.provider.Name() + "."})
	}
	s.cookies.setSession(v.w, value)
	return v.redirect(to)
}

func (s *Site) signOut(v *visit) error {
	if err := s.Accounts.SignOut(v.Context(), v.cookie(s.cookies.session)); err != nil {
		return err
	}
	s.cookies.clear(v.w, s.cookies.session)
	return v.done("/login", "You are signed out.")
}

// linkForm is the data of the page behind a sign-in link.
type linkForm struct {
	Token       string
	Email       string
	MinPassword int
	Problems    problems
}

func (s *Site) linkPage(v *visit) error { return s.showLink(v, http.StatusOK, nil) }

func (s *Site) showLink(v *visit, status int, wrong problems) error {
	token := v.PathValue("token")
	user, err := s.Accounts.LinkUser(v.Context(), token)
	if err != nil {
		return err
	}
	return v.show(status, "link", view{Title: "Choose a password", Focused: true, Page: linkForm{token, user.Email, account.MinPassword, wrong}})
}

func (s *Site) useLink(v *visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	password := form.Get("new_password")
	var value string
	if err = checkRepeated(password, form.Get("repeat_password")); err == nil {
		value, err = s.Accounts.UseLink(v.Context(), v.PathValue("token"), password, v.origin(), v.cookie(s.cookies.session))
	}
	if wrong, ok := problemsOf(err); ok {
		return s.showLink(v, http.StatusUnprocessableEntity, wrong)
	}
	if err != nil {
		return err
	}
	s.cookies.setSession(v.w, value)
	return v.done("/", "Password set.")
}

// checkRepeated returns an error unless both passwords are the same.
func checkRepeated(password, again string) error {
	if password != again {
		return core.Problems{{Field: "repeat_password", Code: "is not the same as the new password"}}.Err()
	}
	return nil
}
