package accountpages

import (
	"net/http"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/route"
)

func (s *Site) signUpRoutes() []route.Route {
	return []route.Route{
		s.Get("/signup/setup/{token}", s.setUpPage),
		s.Post("/signup/setup/{token}", s.setUp),
		s.Get("/signup/invitation/{token}", s.invitationPage),
		s.Post("/signup/invitation/{token}", s.acceptInvitation),
	}
}

// setUpForm is the form with which the first person sets up an installation.
func setUpForm(v *pages.Visit) pages.Form {
	return pages.Form{Action: "/signup/setup/" + v.PathValue("token"), Submit: "Set up Stackyard", Fields: []pages.Field{
		{Name: "organization", Label: "Organization", Required: true, Placeholder: "Acme Inc", Hint: "Your team or company. Its name becomes part of addresses."},
		{Name: "name", Label: "Your name", Required: true},
		{Name: "email", Label: "Email", Required: true, Hint: "You sign in with it."},
		passwordField,
	}}
}

var passwordField = pages.Field{Name: "new_password", Label: "Password", Kind: pages.PasswordField, Required: true, Hint: "At least 10 characters. A few words in a row are easy to remember and hard to guess."}

func (s *Site) setUpPage(v *pages.Visit) error {
	if err := s.Accounts.CheckSetUpLink(v.Context(), v.PathValue("token")); err != nil {
		return err
	}
	return showSetUp(v, http.StatusOK, setUpForm(v))
}

func showSetUp(v *pages.Visit, status int, form pages.Form) error {
	return v.Show(status, "setup", pages.View{Title: "Set up Stackyard", Focused: true, Page: form})
}

func (s *Site) setUp(v *pages.Visit) error {
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	first := orgfile.FirstRun{Organization: values.Get("organization"), Name: values.Get("name"), Email: values.Get("email"), Password: values.Get("new_password")}
	made, err := orgfile.SetUp(v.Context(), s.DB, s.Key, s.Accounts, s.Clock, v.PathValue("token"), first, v.Origin(), v.CookieValue(s.Cookies.Session))
	if wrong, ok := pages.ProblemsOf(err); ok {
		return showSetUp(v, http.StatusUnprocessableEntity, setUpForm(v).Entered(values, wrong))
	}
	if err != nil {
		return err
	}
	s.Cookies.SetSession(v.W, made.Session)
	return v.Show(http.StatusCreated, "ready", pages.View{Title: "Stackyard is ready", Focused: true, Page: struct {
		Command, Home, Builds string
	}{"stackyard agent --endpoint " + s.Public.To("v3") + " --token " + made.AgentToken, "/" + made.Organization, "/" + made.Organization + "/" + made.Pipeline + "/builds"}})
}

// invitationForm is the data of the page of an invitation.
type invitationForm struct {
	Organization string
	Email        string
	Role         string
	Action       string
	SignIn       string // path; "" if the visitor need not sign in
	Join         bool   // the visitor is signed in as the invited user
	Other        string // email of another user who is signed in
	Form         pages.Form
}

func (s *Site) invitationPage(v *pages.Visit) error {
	return s.showInvitation(v, http.StatusOK, pages.Form{Fields: []pages.Field{{Name: "name", Label: "Your name", Required: true}, passwordField}})
}

func (s *Site) showInvitation(v *pages.Visit, status int, form pages.Form) error {
	i, org, known, err := s.Organizations.Invited(v.Context(), v.PathValue("token"))
	if err != nil {
		return err
	}
	action := "/signup/invitation/" + v.PathValue("token")
	form.Action, form.Submit = action, "Join "+org.Name
	page := invitationForm{Organization: org.Name, Email: i.Email, Role: string(i.Role), Action: action, Form: form}
	switch {
	case v.Session != nil && v.User().Email == i.Email:
		page.Join = true
	case v.Session != nil:
		page.Other = v.User().Email
	case known:
		page.SignIn = "/login?return_to=" + action
	}
	return v.Show(status, "invitation", pages.View{Title: "Join " + org.Name, Focused: true, Page: page})
}

func (s *Site) acceptInvitation(v *pages.Visit) error {
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	token := v.PathValue("token")
	_, org, _, err := s.Organizations.Invited(v.Context(), token)
	if err != nil {
		return err
	}
	if v.Session != nil {
		if err := s.Organizations.Join(v.Context(), token, v.User()); err != nil {
			return err
		}
		return v.Done("/"+org.Slug, "Welcome to "+org.Name+".")
	}
	value, err := s.Organizations.SignUp(v.Context(), s.Accounts, token, values.Get("name"), values.Get("new_password"), v.Origin(), v.CookieValue(s.Cookies.Session))
	if wrong, ok := pages.ProblemsOf(err); ok {
		form := pages.Form{Fields: []pages.Field{{Name: "name", Label: "Your name", Required: true}, passwordField}}
		return s.showInvitation(v, http.StatusUnprocessableEntity, form.Entered(values, wrong))
	}
	if err != nil {
		return err
	}
	s.Cookies.SetSession(v.W, value)
	return v.Done("/"+org.Slug, "Welcome to "+org.Name+".")
}
