package accountpages

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// noApplication is the same for unknown applications and those of other organizations.
const noApplication = "Application not found, or your organization does not manage it."

// application returns the application in the path and its organization.
func (s *Site) application(v *pages.Visit) (org pages.Membership, a oauth.Application, err error) {
	id, err := v.PathID("application", noApplication)
	if err != nil {
		return org, a, err
	}
	if org, err = administered(v, v.PathValue("organization")); err != nil {
		return org, a, err
	}
	a, err = s.OAuth.Application(v.Context(), org.ID, id)
	return org, a, err
}

func administered(v *pages.Visit, slug string) (pages.Membership, error) {
	orgs, err := v.OrganizationsWith(identity.ManageApplications)
	for _, o := range orgs {
		if o.Slug == slug {
			return o, nil
		}
	}
	if err == nil {
		err = core.Errorf(core.NotFound, noApplication)
	}
	return pages.Membership{}, err
}

func (s *Site) applications(v *pages.Visit) error {
	orgs, err := v.OrganizationsWith(identity.ManageApplications)
	if err != nil {
		return err
	}
	type shown struct {
		pages.Membership
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
	return v.Show(http.StatusOK, "applications", pages.View{Title: "OAuth applications", Section: "applications", Page: page})
}

// applicationForm is the data of the pages that create and change an application.
type applicationForm struct {
	New           bool
	Application   oauth.Application
	Settings      oauth.ApplicationSettings
	Scopes        scopeForm
	Confidential  bool
	Organizations []pages.Membership // to choose from, for a new application
	Organization  string             // slug
	Lives         []tokenLife
	Problems      pages.Problems
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

func (s *Site) showApplicationForm(v *pages.Visit, status int, form applicationForm) (err error) {
	form.Scopes = newScopeForm(form.Settings.Scopes, form.Problems)
	form.Lives = livesWith(form.Settings.TokenExpiresIn)
	title := form.Application.Name
	if form.New {
		title = "New OAuth application"
		if form.Organizations, err = v.OrganizationsWith(identity.ManageApplications); err != nil {
			return err
		}
	}
	return v.Show(status, "application", pages.View{Title: title, Section: "applications", Page: form})
}

func (s *Site) newApplication(v *pages.Visit) error {
	orgs, err := v.OrganizationsWith(identity.ManageApplications)
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

func (s *Site) createApplication(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	org, err := administered(v, form.Get("organization"))
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
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showApplicationForm(v, http.StatusUnprocessableEntity, applicationForm{New: true, Settings: settings, Confidential: confidential, Organization: org.Slug, Problems: wrong})
	}
	if err != nil {
		return err
	}
	if !confidential {
		return v.Done(applicationPath(org, made), "Application created. Its client id is "+made.ClientID+".")
	}
	return s.showClientSecret(v, http.StatusCreated, org, made, value)
}

func applicationPath(org pages.Membership, a oauth.Application) string {
	return "/settings/oauth-applications/" + org.Slug + "/" + a.ID
}

func (s *Site) showClientSecret(v *pages.Visit, status int, org pages.Membership, a oauth.Application, value string) error {
	return v.Show(status, "secret", pages.View{Title: "Client secret of " + a.Name, Section: "applications", Page: pages.Secret{
		Of: a.Name, Value: value, Back: applicationPath(org, a), BackTo: a.Name,
	}})
}

func (s *Site) editApplication(v *pages.Visit) error {
	org, a, err := s.application(v)
	if err != nil {
		return err
	}
	return s.showApplicationForm(v, http.StatusOK, applicationForm{Application: a, Settings: a.Settings(), Confidential: a.Confidential, Organization: org.Slug})
}

func (s *Site) changeApplication(v *pages.Visit) error {
	org, a, err := s.application(v)
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
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showApplicationForm(v, http.StatusUnprocessableEntity, applicationForm{Application: a, Settings: settings, Confidential: a.Confidential, Organization: org.Slug, Problems: wrong})
	}
	if err != nil {
		return err
	}
	return v.Done(applicationPath(org, a), "Application saved.")
}

func (s *Site) rotateSecret(v *pages.Visit) error {
	org, a, err := s.application(v)
	if err != nil {
		return err
	}
	value, err := s.OAuth.RotateSecret(v.Context(), org.ID, a.ID)
	if err != nil {
		return err
	}
	return s.showClientSecret(v, http.StatusOK, org, a, value)
}
