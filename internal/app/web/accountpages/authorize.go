package accountpages

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Site) authorizeRoutes() []route.Route {
	return []route.Route{
		s.Get("/oauth/authorize", pages.SignedIn(s.authorizationRequest)),
		s.Post("/oauth/authorize", pages.SignedIn(s.decideAuthorization)),
	}
}

func (s *Site) authorizationRequest(v *pages.Visit) error {
	return s.showAuthorization(v, http.StatusOK, "")
}

func (s *Site) showAuthorization(v *pages.Visit, status int, problem string) error {
	query := v.URL.Query()
	found, err := s.OAuth.AuthorizationRequest(v.Context(), visitor(v), query)
	if err != nil {
		return sendBack(v, "", err)
	}
	pages.SetPolicy(v.W.Header(), "'self'"+formSource(query.Get("redirect_uri")))
	return s.showConsent(v, status, consentPage{
		Consent: found.Consent, Host: found.RedirectHost, Action: "/oauth/authorize?" + query.Encode(), Problem: problem,
	})
}

// plainHost matches text that can only be a host in a policy.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]+$`)

// formSource allows a form to end at the redirect URI, which has been checked.
func formSource(redirectURI string) string {
	u, err := url.Parse(redirectURI)
	if err != nil || !plainHost.MatchString(u.Host) {
		return ""
	}
	return " " + u.Scheme + "://" + u.Host
}

func (s *Site) decideAuthorization(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	var to string
	switch query := v.URL.Query(); form.Get("decision") {
	case "approve":
		to, err = s.OAuth.ApproveAuthorization(v.Context(), visitor(v), query, form.Get("organization"))
	case "deny":
		to, err = s.OAuth.DenyAuthorization(v.Context(), query)
	default:
		err = core.Errorf(core.Unprocessable, "Choose Approve or Deny.")
	}
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showAuthorization(v, http.StatusUnprocessableEntity, wrong[""])
	}
	return sendBack(v, to, err)
}

// sendBack redirects the browser to the application that it came from, with err for the application if it is
// not nil.
func sendBack(v *pages.Visit, to string, err error) error {
	if back, ok := errors.AsType[*oauth.Redirect](err); ok {
		to, err = back.URL, nil
	}
	if err != nil {
		return err
	}
	return v.Leave(to)
}
