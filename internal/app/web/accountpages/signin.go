package accountpages

import (
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Site) signInRoutes() []route.Route {
	return []route.Route{
		s.Get("/login", s.signInPage),
		s.Post("/login", s.signIn),
		s.Get("/login/link/{token}", s.linkPage),
		s.Post("/login/link/{token}", s.useLink),
		s.Post("/logout", s.signOut),
	}
}

// signInForm is the data of the sign-in page.
type signInForm struct {
	Email    string
	ReturnTo string
	Provider string // that people can sign in with instead; "" for none
	Problem  string
}

// SignIn shows the sign-in page, which leads to a path.
func (s *Site) SignIn(v *pages.Visit, returnTo string) error {
	return s.showSignIn(v, http.StatusOK, signInForm{ReturnTo: returnTo})
}

func (s *Site) showSignIn(v *pages.Visit, status int, form signInForm) error {
	if s.provider != nil {
		form.Provider = s.provider.Name()
	}
	return v.Show(status, "signin", pages.View{Title: "Sign in", Focused: true, Page: form})
}

func (s *Site) signInPage(v *pages.Visit) error {
	to := pages.LocalPath(v.FormQuery("return_to"))
	if v.Session != nil {
		return v.Redirect(to)
	}
	return s.SignIn(v, to)
}

func (s *Site) signIn(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	to := pages.LocalPath(form.Get("return_to"))
	value, err := s.Accounts.SignIn(v.Context(), form.Get("email"), form.Get("password"), v.Origin(), v.CookieValue(s.Cookies.Session))
	if wrong, ok := pages.ProblemsOf(err); ok {
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
	s.Cookies.SetSession(v.W, value)
	return v.Redirect(to)
}

func (s *Site) signOut(v *pages.Visit) error {
	if err := s.Accounts.SignOut(v.Context(), v.CookieValue(s.Cookies.Session)); err != nil {
		return err
	}
	s.Cookies.Clear(v.W, s.Cookies.Session)
	return v.Done("/login", "You are signed out.")
}

// linkForm is the data of the page behind a sign-in link.
type linkForm struct {
	Token       string
	Email       string
	HasPassword bool
	MinPassword int
	Problems    pages.Problems
}

func (s *Site) linkPage(v *pages.Visit) error { return s.showLink(v, http.StatusOK, nil) }

func (s *Site) showLink(v *pages.Visit, status int, wrong pages.Problems) error {
	token := v.PathValue("token")
	l, err := s.Accounts.Link(v.Context(), token)
	if err != nil {
		return err
	}
	title := "Choose a password"
	if l.HasPassword {
		title = "Sign in"
	}
	return v.Show(status, "link", pages.View{Title: title, Focused: true, Page: linkForm{token, l.User.Email, l.HasPassword, account.MinPassword, wrong}})
}

func (s *Site) useLink(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	password := form.Get("new_password")
	var value string // of the session
	if err = checkRepeated(password, form.Get("repeat_password")); err == nil {
		value, err = s.Accounts.UseLink(v.Context(), v.PathValue("token"), password, v.Origin(), v.CookieValue(s.Cookies.Session))
	}
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showLink(v, http.StatusUnprocessableEntity, wrong)
	}
	if err != nil {
		return err
	}
	s.Cookies.SetSession(v.W, value)
	if password == "" {
		return v.Redirect("/")
	}
	return v.Done("/", "Password set.")
}

// checkRepeated returns an error unless both passwords are the same.
func checkRepeated(password, again string) error {
	if password != again {
		return core.Problems{{Field: "repeat_password", Code: "is not the same as the new password"}}.Err()
	}
	return nil
}
