package accountpages

import (
	"errors"
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) deviceRoutes() []route.Route {
	return []route.Route{
		s.Get("/oauth/device", pages.SignedIn(s.enterCode)),
		s.Post("/oauth/device", pages.SignedIn(s.findCode)),
		s.Get("/oauth/device/{code}", pages.SignedIn(s.deviceRequest)),
		s.Post("/oauth/device/{code}", pages.SignedIn(s.decideDevice)),
	}
}

// visitor returns the visitor for package oauth.
func visitor(v *pages.Visit) oauth.Visitor {
	return oauth.Visitor{UserID: v.User().ID, Address: v.Address}
}

// codeForm is the data of the page to enter a user code.
type codeForm struct {
	Code    string // as entered
	Problem string
}

func (s *Site) showCodeForm(v *pages.Visit, status int, form codeForm) error {
	return v.Show(status, "device", pages.View{Title: "Connect a device", Focused: true, Page: form})
}

func (s *Site) enterCode(v *pages.Visit) error {
	return s.showCodeForm(v, http.StatusOK, codeForm{Code: v.FormQuery("user_code")})
}

func (s *Site) findCode(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	found, err := s.OAuth.DeviceRequest(v.Context(), visitor(v), form.Get("user_code"))
	if err != nil {
		return s.codeProblem(v, form.Get("user_code"), err)
	}
	return v.Redirect("/oauth/device/" + found.UserCode)
}

// codeProblem shows the form again after a code that is not valid.
func (s *Site) codeProblem(v *pages.Visit, entered string, err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		return err
	}
	statuses := map[core.Kind]int{
		core.Unprocessable: http.StatusUnprocessableEntity,
		core.NotFound:      http.StatusNotFound,
		core.Gone:          http.StatusGone,
		core.Conflict:      http.StatusConflict,
	}
	status, ok := statuses[e.Kind]
	if !ok {
		return err
	}
	return s.showCodeForm(v, status, codeForm{Code: entered, Problem: e.Message})
}

// consentPage is the data of the page on which a user approves an application.
type consentPage struct {
	oauth.Consent
	Asked   requestedScopes
	Email   string               // of the signed-in user
	Device  *oauth.DeviceRequest // nil: the application redirected the browser here
	Host    string               // host of the redirect URI, without a device
	Action  string               // path of the form
	Problem string
}

// Named returns the preselected organization, or the zero value.
func (c consentPage) Named() (o identity.Organization) {
	for _, o := range c.Organizations {
		if o.ID == c.Preselected {
			return o
		}
	}
	return o
}

func (s *Site) showConsent(v *pages.Visit, status int, page consentPage) error {
	page.Asked, page.Email = describeScopes(page.Scopes), v.User().Email
	return v.Show(status, "consent", pages.View{Title: "Authorize " + page.Application.Name + "?", Focused: true, Page: page})
}

func (s *Site) deviceRequest(v *pages.Visit) error { return s.showDevice(v, http.StatusOK, "") }

func (s *Site) showDevice(v *pages.Visit, status int, problem string) error {
	code := v.PathValue("code")
	found, err := s.OAuth.DeviceRequest(v.Context(), visitor(v), code)
	if err != nil {
		return s.codeProblem(v, code, err)
	}
	return s.showConsent(v, status, consentPage{Consent: found.Consent, Device: &found, Action: "/oauth/device/" + found.UserCode, Problem: problem})
}

func (s *Site) decideDevice(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	code := v.PathValue("code")
	found, err := s.OAuth.DeviceRequest(v.Context(), visitor(v), code)
	if err != nil {
		return s.codeProblem(v, code, err)
	}
	switch form.Get("decision") {
	case "approve":
		err = s.OAuth.ApproveDevice(v.Context(), visitor(v), code, form.Get("organization"))
	case "deny":
		err = s.OAuth.DenyDevice(v.Context(), visitor(v), code)
	default:
		err = core.Errorf(core.Unprocessable, "Choose Approve or Deny.")
	}
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showDevice(v, http.StatusUnprocessableEntity, wrong[""])
	}
	if err != nil {
		return s.codeProblem(v, code, err)
	}
	page := outcome{Application: found.Application.Name, Approved: form.Get("decision") == "approve"}
	title := "Denied"
	if page.Approved {
		title = "Approved"
	}
	return v.Show(http.StatusOK, "outcome", pages.View{Title: title, Focused: true, Page: page})
}

// An outcome is the decision on a device's request.
type outcome struct {
	Application string
	Approved    bool
}
