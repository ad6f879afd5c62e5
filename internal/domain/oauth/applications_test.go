package oauth

import (
	"slices"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

func goodSettings() ApplicationSettings {
	return ApplicationSettings{
		Name: "Dashboard", Scopes: identity.Scopes{"read_builds"}, RedirectURIs: []string{"https://dash.test/cb"},
		TokenExpiresIn: 3600, RefreshTokens: true, Enabled: true,
	}
}

func TestCreateApplication_MakesOneThatItsOrganizationLooksAfter(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		public, secret, err := s.CreateApplication(t.Context(), s.rival.ID, goodSettings(), false)
		if err != nil || secret != "" || public.Confidential {
			t.Fatalf("%+v, %q, %v", public, secret, err)
		}
		made, secret, err := s.CreateApplication(t.Context(), s.rival.ID, goodSettings(), true)
		if err != nil || !strings.HasPrefix(secret, secretPrefix) || made.ClientID == public.ClientID {
			t.Fatalf("%+v, %q, %v", made, secret, err)
		}
		got, err := s.Application(t.Context(), s.rival.ID, made.ID)
		if err != nil || got.Name != "Dashboard" || !got.Confidential || got.secretHash != seal.HashToken(secret) || !slices.Equal(got.RedirectURIs, made.RedirectURIs) ||
			got.TokenExpiresIn != 3600 || !got.RefreshTokens || !got.Enabled || got.OrganizationID != s.rival.ID {
			t.Errorf("got %+v, %v", got, err)
		}
		_, err = s.Application(t.Context(), s.acme.ID, made.ID)
		wantKind(t, "from another organization", err, core.NotFound)
		list, err := s.Applications(t.Context(), s.rival.ID)
		if err != nil || len(list) != 2 {
			t.Errorf("listed %+v, %v", list, err)
		}
	})
}

func TestEditApplication_IsForItsOwnOrganization(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		settings := s.robot.Settings()
		settings.Name, settings.Enabled = "Robot 2", false
		_, err := s.EditApplication(t.Context(), s.rival.ID, s.robot.ID, settings)
		wantKind(t, "another organization's", err, core.NotFound)
		_, err = s.EditApplication(t.Context(), s.acme.ID, s.tool.ID, settings)
		wantKind(t, "the installation's", err, core.NotFound)
		_, err = s.RotateSecret(t.Context(), s.rival.ID, s.robot.ID)
		wantKind(t, "another organization's secret", err, core.NotFound)
		got, err := s.EditApplication(t.Context(), s.acme.ID, s.robot.ID, settings)
		if err != nil || got.Name != "Robot 2" || got.Enabled || got.secretHash != s.robot.secretHash || got.ClientID != "robot" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestEditApplication_ReportsProblems(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		for field, change := range map[string]func(*ApplicationSettings){
			"name":             func(a *ApplicationSettings) { a.Name = " " },
			"scopes":           func(a *ApplicationSettings) { a.Scopes = identity.Scopes{"fly"} },
			"redirect_uris":    func(a *ApplicationSettings) { a.RedirectURIs = []string{"http://app.test/"} },
			"token_expires_in": func(a *ApplicationSettings) { a.TokenExpiresIn = -1 },
		} {
			settings := goodSettings()
			change(&settings)
			_, err := s.EditApplication(t.Context(), s.acme.ID, s.robot.ID, settings)
			e, ok := err.(*core.Error)
			if !ok || e.Kind != core.Unprocessable || len(e.Fields) != 1 || e.Fields[0].Field != field {
				t.Errorf("%s: %v", field, err)
			}
			if _, _, createErr := s.CreateApplication(t.Context(), s.acme.ID, settings, false); createErr == nil || createErr.Error() != err.Error() {
				t.Errorf("%s: creating says %v", field, createErr)
			}
		}
		_, _, err := s.CreateApplication(t.Context(), s.acme.ID, ApplicationSettings{TokenExpiresIn: maxTokenLife + 1, RedirectURIs: make([]string, maxRedirectURIs+1)}, false)
		if e, ok := err.(*core.Error); !ok || len(e.Fields) != 5 {
			t.Errorf("everything wrong: %v", err)
		}
	})
}

func TestRotateSecret_ReplacesTheSecret(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		secret, err := s.RotateSecret(t.Context(), s.acme.ID, s.robot.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Application(t.Context(), s.acme.ID, s.robot.ID); got.secretHash != seal.HashToken(secret) {
			t.Error("the secret is not the one that was returned")
		}
		s.exec(`UPDATE oauth_applications SET organization_id = $1 WHERE id = $2`, s.acme.ID, s.tool.ID)
		_, err = s.RotateSecret(t.Context(), s.acme.ID, s.tool.ID)
		wantKind(t, "of a public application", err, core.Unprocessable)
	})
}

func TestApply_LetsTheFirstOrganizationLookAfterAnApplication(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		for _, org := range []*identity.Organization{&s.rival, &s.acme} {
			s.write(func(q *db.Q) error {
				var changes core.Changes
				var complaints core.Complaints
				return Apply(identity.Applying{Q: q, Org: org, Now: noon, Changes: &changes, Complaints: &complaints},
					[]Spec{{ClientID: "dash", RedirectURIs: []string{"https://dash.test/"}}, {ClientID: "stackyard-cli"}})
			})
		}
		if a := byClientID(t, s.db, "dash"); a.OrganizationID != s.rival.ID || len(a.RedirectURIs) != 1 {
			t.Errorf("got %+v", a)
		}
		if a := byClientID(t, s.db, "stackyard-cli"); a.OrganizationID != "" {
			t.Error("a built-in application got an owner")
		}
	})
}
