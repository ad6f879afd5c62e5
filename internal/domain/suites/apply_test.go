package suites_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
)

func TestApply_CreatesAndChangesSuites(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		s.Apply(`
organizations:
  - slug: acme
    suites:
      - {slug: unit, token: svcst_unit, color: "#abc", oidc_policy: "- iss: https://ci.example.com"}
      - {slug: generated, name: Generated}
`)
		unit := ada.Get(acme + "/unit?show_api_token=true").Want(http.StatusOK)
		for field, want := range map[string]string{
			"name": "unit", "default_branch": "main", "api_token": "svcst_unit", "color": "#abc", "oidc_policy": "- iss: https://ci.example.com",
		} {
			if got := unit.String(field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		if got := ada.Get(acme + "/generated?show_api_token=true").Want(http.StatusOK).String("api_token"); len(got) < 24 {
			t.Errorf("the generated token is %q", got)
		}
		s.Apply(`
organizations:
  - slug: acme
    suites:
      - {slug: unit, name: Unit tests, token: svcst_other, oidc_policy: ""}
`)
		changed := ada.Get(acme + "/unit?show_api_token=true").Want(http.StatusOK)
		if changed.String("name") != "Unit tests" || changed.String("api_token") != "svcst_other" || changed.String("color") != "#abc" || changed.At("oidc_policy") != nil || changed.String("id") != unit.String("id") {
			t.Errorf("after a change: %s", changed.Body)
		}
	})
}

func TestApply_ReportsProblemsWithSuites(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply("organizations: [{slug: acme, suites: [{slug: unit, token: svcst_unit}]}]")
		for suite, want := range map[string]string{
			`{slug: No Slug}`:                                 "the slug of a suite must begin",
			`{slug: other, token: "a b"}`:                     "no spaces",
			`{slug: other, token: svcst_unit}`:                "is the token of another suite",
			`{slug: other, name: Unit}`:                       "suite other: name has already been taken",
			`{slug: other, color: red}`:                       "suite other: color must be a color in hex",
			`{slug: other, oidc_policy: "- iss: x"}`:          "suite other: oidc_policy is not valid: statement 1",
			`{slug: other, teams: [nobody]}`:                  `suite other: there is no team "nobody"`,
			`{slug: other, id: x}`:                            `"x" is not a UUID`,
			`{slug: unit, id: ` + servertest.AcmeTeamID + `}`: "the suite unit exists with the id",
		} {
			_, err := orgfile.Apply(t.Context(), s.DB, s.Key, s.Clock.Now, []byte("organizations: [{slug: acme, suites: ["+suite+"]}]"))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error %v does not say %q", suite, err, want)
			}
		}
	})
}
