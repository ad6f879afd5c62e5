package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// administered returns the organizations that the visitor administers.
func (v *visit) administered() (list []membership, err error) {
	all, err := v.organizations()
	for _, m := range all {
		if v.Caller.Membership(m.ID).Can(identity.ManageApplications, &m.Organization) {
			list = append(list, m)
		}
	}
	return list, err
}

// noApplication is the same for unknown applications and those of other organizations.
const noApplication = "Application not found, or your organization does not manage it."

// application returns the application in the path and its organization.
func (v *visit) application() (org membership, a oauth.Application, err error) {
	id, err := v.PathID("application", noApplication)
	if err != nil {
		return org, a, err
	}
	if org, err = v.administeredOne(v.PathValue("organization")); err != nil {
		return org, a, err
	}
	a, err = v.site.OAuth.Application(v.Context(), org.ID, id)
	return org, a, err
}

func (v *visit) administeredOne(slug string) (membership, error) {
	orgs, err := v.administered()
	for _, o := range orgs {
		if o.Slug == slug {
			return o, nil
		}
	}
	if err == nil {
		err = core.Errorf(core.NotFound, noApplication)
	}
	return membership{}, err
}

func (s *Site) applications(v *visit) error {
	orgs, err := v.administered()
	if err != nil {
		return err
	}
	type shown struct {
		membership
		Applications []oauth.Application
	}
	var page []shown
	for _, o := range orgs {
		list, err := s.OAuth.Applications(v.Context(), o.ID)
		if err != nil {
			return err
		}
		page = append(page, shown{o, list})
	}
	return v.show(http.StatusOK, "applications", view{Title: "OAuth applications", Section: "applications", Page: page})
}

// applicationForm is the data of the pages that create and change an application.
type applicationForm struct {
	New           bool
	Application   oauth.Application
	Settings      oauth.ApplicationSettings
	Scopes        scopeForm
	Confidential  bool
	Organizations []membership // to choose from, for a new application
	Organization  string       // slug
	Lives         []tokenLife
	Problems      problems
}

// A tokenLife is a lifetime of an application's access tokens.
type tokenLife struct {
	Seconds int
	Text    string
}

var tokenLives = []tokenLife{
	{0, "Never"}, {3600, "1 hour"}, {8 * 3600, "8 hours"}, {24 * 3600, "1 day"}, {30 * 24 * 3600, "30 days"}, {365 * 24 * 3600, "1 year"},
}

// livesWith returns the lifetimes to choose from, including the chosen one.
func livesWith(seconds int) []tokenLife {
	for _, l := range tokenLives {
		if l.Seconds == seconds {
			return tokenLives
		}
	}
	return append([]tokenLife{{seconds, strconv.Itoa(seconds) + " seconds"}}, tokenLives...)
}

// RedirectURIs returns the URIs, one per line.
func (f applicationForm) RedirectURIs() string { return strings.Join(f.Settings.RedirectURIs, "\n") }

func (s *Site) showApplicationForm(v *visit, status int, form applicationForm) (err error) {
	form.Scopes = newScopeForm(form.Settings.Scopes, form.Problems)
	form.Lives = livesWith(form.Settings.TokenExpiresIn)
	title := form.Application.Name
	if form.New {
		title = "New OAuth application"
		if form.Organizations, err = v.administered(); err != nil {
			return err
		}
	}
	return v.show(status, "application", view{Title: title, Section: "applications", Page: form})
}

func (s *Site) newApplication(v *visit) error {
	orgs, err := v.administered()
	if err != nil {
		return err
	}
	if len(orgs) == 0 {
		return core.Errorf(core.Forbidden, "Only administrators of an organization can create OAuth applications.")
	}
	return s.showApplicationForm(v, http.StatusOK, applicationForm{New: true, Organization: orgs[0].Slug, Settings: oauth.ApplicationSettings{RefreshTokens: true, Enabled: true, TokenExpiresIn: 8 * 3600}})
}

// formSettings returns the settings of an application in a form.
func formSettings(form url.Values) (oauth.ApplicationSettings, error) {
	settings := oauth.ApplicationSettings{
		Name:          strings.TrimSpace(form.Get("name")),
		Scopes:        formScopes(form["scopes"]),
		RedirectURIs:  strings.Fields(form.Get("redirect_uris")),
		RefreshTokens: form.Get("refresh_tokens") != "",
		Enabled:       form.Get("enabled") != "",
	}
	var err error
	if settings.TokenExpiresIn, err = strconv.Atoi(form.Get("token_expires_in")); err != nil {
		err = core.Problems{{Field: "token_expires_in", Code: "must be one of those offered"}}.Err()
	}
	return settings, err
}

func (s *Site) createApplication(v *visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	org, err := v.administeredOne(form.Get("organization"))
	if err != nil {
		return err
	}
	confidential := form.Get("type") == "confidential"
	var made oauth.Application
	var value string
	settings, err := formSettings(form)
	settings.Enabled = true
	if err == nil {
		made, value, err = s.OAuth.CreateApplication(v.Context(), org.ID, settings, confidential)
	}
	if wrong, ok := problemsOf(err); ok {
		return s.showApplicationForm(v, http.StatusUnprocessableEntity, applicationForm{New: true, Settings: settings, Confidential: confidential, Organization: org.Slug, Problems: wrong})
	}
	if err != nil {
		return err
	}
	if !confidential {
		return v.done(applicationPath(org, made), "Application created. Its client id is "+made.ClientID+".")
	}
	return s.showClientSecret(v, http.StatusCreated, org, made, value)
}

func applicationPath(org membership, a oauth.Application) string {
	return "/settings/oauth-applications/" + org.Slug + "/" + a.ID
}

func (s *Site) showClientSecret(v *visit, status int, org membership, a oauth.Application, value string) error {
	return v.show(status, "secret", view{Title: "Client secret of " + a.Name, Section: "applications", Page: secret{
		Of: a.Name, Value: value, Back: applicationPath(org, a), BackTo: a.Name,
	}})
}

func (s *Site) editApplication(v *visit) error {
	org, a, err := v.application()
	if err != nil {
		return err
	}
	return s.showApplicationForm(v, http.StatusOK, applicationForm{Application: a, Settings: a.Settings(), Confidential: a.Confidential, Organization: org.Slug})
}

func (s *Site) changeApplication(v *visit) error {
	org, a, err := v.application()
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	settings, err := formSettings(form)
	if err == nil {
		_, err = s.OAuth.EditApplication(v.Context(), org.ID, a.ID, settings)
	}
	if wrong, ok := problemsOf(err); ok {
		return s.showApplicationForm(v, http.StatusUnprocessableEntity, applicationForm{Application: a, Settings: settings, Confidential: a.Confidential, Organization: org.Slug, Problems: wrong})
	}
	if err != nil {
		return err
	}
	return v.done(applicationPath(org, a), "Application saved.")
}

func (s *Site) rotateSecret(v *visit) error {
	org, a, err := v.application()
	if err != nil {
		return err
	}
	value, err := s.OAuth.RotateSecret(v.Context(), org.ID, a.ID)
	if err != nil {
		return err
	}
	return s.showClientSecret(v, http.StatusOK, org, a, value)
}
