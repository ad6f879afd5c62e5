package suites_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const (
	acme  = "/v2/analytics/organizations/acme/suites"
	rival = "/v2/analytics/organizations/rival/suites"
)

// body is a request body.
type body = map[string]any

// newSuite creates a suite in acme and returns its path.
func newSuite(c *servertest.Client, name string) string {
	return acme + "/" + c.Post(acme, body{"name": name, "default_branch": "main"}).Want(http.StatusCreated).String("slug")
}

// enableTeams turns teams on in acme: Ada, an administrator, is in Everyone; Bo and Di are members in teams of their
// own.
func enableTeams(s *servertest.Server) (boTeam, diTeam string) {
	boTeam, diTeam = "0190c0de-0000-7000-8000-0000000000e2", "0190c0de-0000-7000-8000-0000000000e3"
	s.Apply(`
organizations:
  - slug: acme
    features: {teams: true}
    members:
      - {email: di@acme.test, name: Di, access_tokens: [{description: everything, token: svcua_di, scopes: ["*"]}]}
    teams:
      - {name: Backend, slug: backend, id: ` + boTeam + `, members: [bo@acme.test]}
      - {name: Frontend, slug: frontend, id: ` + diTeam + `, members: [di@acme.test]}
`)
	return boTeam, diTeam
}

func TestSuites_ShowEveryField(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		policy := "- iss: https://ci.example.com\n"
		made := ada.Post(acme, body{
			"name": "Unit Tests", "default_branch": "main", "application_name": "Shop", "color": "#FFF700", "emoji": ":lemon:", "oidc_policy": policy,
		}).Want(http.StatusCreated)
		id := made.String("id")
		if _, ok := core.ParseID(id); !ok {
			t.Errorf("the id %q is not a UUID", id)
		}
		for path, want := range map[string]any{
			"graphql_id":       core.GraphQLID("Suite", id),
			"slug":             "unit-tests",
			"name":             "Unit Tests",
			"url":              s.URL + acme + "/unit-tests",
			"web_url":          s.URL + "/organizations/acme/analytics/suites/unit-tests",
			"default_branch":   "main",
			"application_name": "Shop",
			"color":            "#FFF700",
			"emoji":            ":lemon:",
			"oidc_policy":      policy,
		} {
			if got := made.At(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		org := ada.Get("/v2/organizations/acme").Want(http.StatusOK).String("id")
		if got := made.String("organization_id"); got != org {
			t.Errorf("organization_id is %s, want %s", got, org)
		}
		if made.Has("api_token") {
			t.Error("the token is shown although nobody asked for it")
		}
		if got := ada.Get(acme + "/unit-tests").Want(http.StatusOK); string(got.Body) != string(made.Body) {
			t.Errorf("get answers %s, create answered %s", got.Body, made.Body)
		}
		plain := ada.Post(acme, body{"name": "Plain", "default_branch": "main"}).Want(http.StatusCreated)
		for _, field := range []string{"application_name", "color", "emoji", "oidc_policy"} {
			if plain.At(field) != nil {
				t.Errorf("%s is %v, want null", field, plain.At(field))
			}
		}
	})
}

func TestSuites_AreListedByPageOldestFirst(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for i := range 5 {
			newSuite(ada, fmt.Sprintf("Suite %d", 9-i))
			s.Clock.Advance(time.Second)
		}
		page := ada.Get(acme + "?per_page=2&page=2").Want(http.StatusOK)
		if page.Len("") != 2 || page.String("0.name") != "Suite 7" || page.String("1.name") != "Suite 6" {
			t.Errorf("page 2 is %s", page.Body)
		}
		link := page.Header.Get("Link")
		for _, rel := range []string{"next", "prev", "first", "last"} {
			if !strings.Contains(link, `rel="`+rel+`"`) {
				t.Errorf("the Link header %q has no %s", link, rel)
			}
		}
		for _, query := range []string{"page=0", "page=x", "per_page=101", "per_page=0", "show_api_token=maybe"} {
			ada.Get(acme + "?" + query).Want(http.StatusBadRequest)
		}
		if got := s.As(t, servertest.Cy).Get(rival).Want(http.StatusOK); got.Len("") != 0 {
			t.Errorf("rival has suites: %s", got.Body)
		}
		s.As(t, servertest.Cy).Get(rival+"/suite-9").WantMessage(http.StatusNotFound, "No suite found")
	})
}

func TestSuites_ShowTheTokenToThoseWhoMaySeeIt(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		made := ada.Post(acme, body{"name": "Unit", "default_branch": "main", "show_api_token": true}).Want(http.StatusCreated)
		token := made.String("api_token")
		if len(token) < 24 {
			t.Fatalf("the token is %q", token)
		}
		shows := func(what string, resp *servertest.Response, path string) {
			t.Helper()
			if got := resp.Want(http.StatusOK).String(path); got != token {
				t.Errorf("%s shows the token %q, want %q", what, got, token)
			}
		}
		shows("get", ada.Get(acme+"/unit?show_api_token=true"), "api_token")
		shows("list", ada.Get(acme+"?show_api_token=true"), "0.api_token")
		shows("update", ada.Patch(acme+"/unit", body{"show_api_token": true}), "api_token")
		if ada.Get(acme + "/unit?show_api_token=false").Want(http.StatusOK).Has("api_token") {
			t.Error("the token is shown although it is not wanted")
		}

		const message = "Forbidden: show_api_token needs the permission view_suite_tokens"
		bo.Get(acme+"/unit?show_api_token=true").WantMessage(http.StatusForbidden, message)
		bo.Get(acme+"?show_api_token=true").WantMessage(http.StatusForbidden, message)
		bo.Patch(acme+"/unit", body{"name": "Renamed", "show_api_token": true}).WantMessage(http.StatusForbidden, message)
		bo.Post(acme, body{"name": "Second", "default_branch": "main", "show_api_token": true}).WantMessage(http.StatusForbidden, message)
		if list := bo.Get(acme).Want(http.StatusOK); list.Len("") != 1 || list.String("0.name") != "Unit" {
			t.Errorf("a refused request changed something: %s", list.Body)
		}
		s.Apply("organizations: [{slug: acme, members: [{email: bo@acme.test, permissions: [view_suite_tokens]}]}]")
		shows("get, with the permission,", bo.Get(acme+"/unit?show_api_token=true"), "api_token")
	})
}

func TestSuites_RefuseInvalidValues(t *testing.T) {
	valid := func(change body) body {
		b := body{"name": "Unit", "default_branch": "main"}
		for name, value := range change {
			b[name] = value
		}
		return b
	}
	tests := []struct {
		name        string
		body        body
		field, text string
	}{
		{"no name", body{"default_branch": "main"}, "name", "is required"},
		{"blank name", valid(body{"name": "  "}), "name", "is required"},
		{"null name", valid(body{"name": nil}), "name", "is required"},
		{"long name", valid(body{"name": strings.Repeat("x", 256)}), "name", "at most 255"},
		{"name of the wrong type", valid(body{"name": 7}), "name", "must be a string"},
		{"no branch", body{"name": "Unit"}, "default_branch", "is required"},
		{"bad branch", valid(body{"default_branch": "a..b"}), "default_branch", "git branch"},
		{"color without a hash", valid(body{"color": "FFF700"}), "color", "hex"},
		{"color by name", valid(body{"color": "red"}), "color", "hex"},
		{"color of four digits", valid(body{"color": "#ffff"}), "color", "hex"},
		{"emoji that is a word", valid(body{"emoji": "lemon"}), "emoji", "emoji"},
		{"emoji with spaces", valid(body{"emoji": ":le mon:"}), "emoji", "emoji"},
		{"long application name", valid(body{"application_name": strings.Repeat("x", 256)}), "application_name", "at most 255"},
		{"teams that are no array", valid(body{"team_ids": "x"}), "team_ids", "must be an array"},
		{"teams that are no UUIDs", valid(body{"team_ids": []string{"x"}}), "team_ids", "UUID"},
		{"unknown team", valid(body{"team_ids": []string{core.NewID()}}), "team_ids", "teams of this organization"},
		{"unknown team, other spelling", valid(body{"teams_ids": []string{core.NewID()}}), "team_ids", "teams of this organization"},
		{"flag of the wrong type", valid(body{"show_api_token": "yes"}), "show_api_token", "true or false"},
		{"policy of the wrong type", valid(body{"oidc_policy": 5}), "oidc_policy", "string of YAML or an array"},
		{"policy that is an object", valid(body{"oidc_policy": body{"iss": "https://a.test"}}), "oidc_policy", "string of YAML or an array"},
		{"policy that is no YAML", valid(body{"oidc_policy": "- a: [b"}), "oidc_policy", "not valid YAML"},
		{"policy without an issuer", valid(body{"oidc_policy": []body{{"claims": body{}}}}), "oidc_policy", "statement 1 needs iss"},
		{"policy with an unknown operator", valid(body{"oidc_policy": "- iss: https://a.test\n  claims: {pipeline_slug: {like: x}}"}), "oidc_policy", `unknown operator "like"`},
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := newSuite(ada, "Existing")
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				ada := s.As(t, servertest.Ada)
				resp := ada.Post(acme, test.body).WantFieldError(test.field, test.text)
				if got := resp.String("message"); got != "Validation Failed" {
					t.Errorf("message %q", got)
				}
				_, given := test.body[test.field]
				if given && !strings.HasPrefix(test.field, "team") {
					ada.Patch(path, body{test.field: test.body[test.field]}).WantFieldError(test.field, test.text)
				}
			})
		}
		if got := ada.Get(acme).Want(http.StatusOK); got.Len("") != 1 {
			t.Errorf("a refused request created a suite: %s", got.Body)
		}
		resp := ada.Post(acme, body{}).WantFieldError("name", "is required").WantFieldError("default_branch", "is required")
		if resp.Len("errors") != 2 {
			t.Errorf("errors %s", resp.Body)
		}
	})
}

func TestSuites_HaveUniqueNamesAndSlugs(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		create := func(name string) *servertest.Response {
			return ada.Post(acme, body{"name": name, "default_branch": "main"})
		}
		for name, slug := range map[string]string{
			"Unit  Tests": "unit-tests", "Ünïcode & Co.": "unicode-co", "  Trimmed  ": "trimmed",
		} {
			if got := create(name).Want(http.StatusCreated).String("slug"); got != slug {
				t.Errorf("the slug of %q is %q, want %q", name, got, slug)
			}
		}
		create("unit  tests").WantFieldError("name", "has already been taken")
		create("Unit-Tests").WantFieldError("name", "slug unit-tests")
		if got := create("日本語").Want(http.StatusCreated).String("slug"); !strings.HasPrefix(got, "suite-") {
			t.Errorf("a name without letters has the slug %q", got)
		}
		long := strings.Repeat("long ", 40)
		first, second := create(long+"a").Want(http.StatusCreated).String("slug"), create(long+"b").Want(http.StatusCreated).String("slug")
		if len(first) > 100 || len(second) > 100 || first == second {
			t.Errorf("the slugs of long names are %q and %q", first, second)
		}
		s.As(t, servertest.Cy).Post(rival, body{"name": "Unit  Tests", "default_branch": "main"}).Want(http.StatusCreated)
		ada.Patch(acme+"/trimmed", body{"name": "UNIT  TESTS"}).WantFieldError("name", "has already been taken")
	})
}

func TestSuites_ChangeWhatIsSentAndNothingElse(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(acme, body{"name": "Unit", "default_branch": "main", "color": "#abc", "emoji": "🍋", "application_name": "Shop", "oidc_policy": []body{{"iss": "https://a.test"}}}).Want(http.StatusCreated)
		before := ada.Get(acme + "/unit")
		if got := ada.Patch(acme+"/unit", body{}).Want(http.StatusOK); string(got.Body) != string(before.Body) {
			t.Errorf("an empty update answers %s, want %s", got.Body, before.Body)
		}
		changed := ada.Patch(acme+"/unit", body{"name": "Renamed", "default_branch": "trunk", "id": core.NewID(), "slug": "other"}).Want(http.StatusOK)
		for path, want := range map[string]any{"name": "Renamed", "default_branch": "trunk", "slug": "unit", "color": "#abc", "emoji": "🍋", "application_name": "Shop", "id": before.At("id")} {
			if got := changed.At(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		cleared := ada.Patch(acme+"/unit", body{"color": nil, "emoji": nil, "application_name": nil, "oidc_policy": nil}).Want(http.StatusOK)
		for _, field := range []string{"color", "emoji", "application_name", "oidc_policy"} {
			if got := cleared.At(field); got != nil {
				t.Errorf("%s is %v after null was sent", field, got)
			}
		}
		if got := ada.Get(acme + "/unit").Want(http.StatusOK); string(got.Body) != string(cleared.Body) {
			t.Errorf("get answers %s, update answered %s", got.Body, cleared.Body)
		}
		ada.Patch(acme+"/nothing", body{"name": "x"}).WantMessage(http.StatusNotFound, "No suite found")
	})
}

func TestSuites_ReturnThePolicyAsItWasGiven(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := newSuite(ada, "Unit")
		text := "# who may upload\n- iss: https://ci.example.com\n  claims:\n    organization_slug: acme\n    pipeline_slug: {in: [web, api]}\n  scopes: [write_uploads]\n"
		list := []any{body{"iss": "https://ci.example.com", "claims": body{"build_branch": body{"matches": "release/*"}, "build_number": body{"not_equals": 1.0}}}}
		for _, policy := range []any{text, list, []any{}} {
			ada.Patch(path, body{"oidc_policy": policy}).Want(http.StatusOK)
			got := ada.Get(path).Want(http.StatusOK).At("oidc_policy")
			if !equalJSON(got, policy) {
				t.Errorf("the policy is %v, want %v", got, policy)
			}
		}
		if got := ada.Patch(path, body{"oidc_policy": " "}).Want(http.StatusOK).At("oidc_policy"); got != nil {
			t.Errorf("a blank policy is %v, want null", got)
		}
	})
}

// equalJSON reports whether two values are the same JSON.
func equalJSON(a, b any) bool {
	var values [2]any
	for i, v := range []any{a, b} {
		text, err := json.Marshal(v)
		if err != nil || json.Unmarshal(text, &values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

func TestSuites_AreGoneWhenDeleted(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := newSuite(ada, "Unit")
		id := ada.Get(path).String("id")
		ada.Delete(path).Want(http.StatusNoContent)
		ada.Get(path).WantMessage(http.StatusNotFound, "No suite found")
		ada.Patch(path, body{"name": "x"}).Want(http.StatusNotFound)
		ada.Delete(path).Want(http.StatusNotFound)
		if got := ada.Get(acme).Want(http.StatusOK); got.Len("") != 0 {
			t.Errorf("the deleted suite is listed: %s", got.Body)
		}
		again := newSuite(ada, "Unit")
		if again != path || ada.Get(again).String("id") == id {
			t.Error("the name and slug of a deleted suite are not free")
		}
	})
}

func TestSuites_OfTeamsAreSeenByTheirMembers(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		boTeam, diTeam := enableTeams(s)
		ada, bo, di := s.As(t, servertest.Ada), s.As(t, servertest.Bo), s.As(t, "svcua_di")
		ada.Post(acme, body{"name": "No team", "default_branch": "main"}).WantFieldError("team_ids", "is required")
		ada.Post(acme, body{"name": "No team", "default_branch": "main", "team_ids": []string{}}).WantFieldError("team_ids", "is required")
		ada.Post(acme, body{"name": "Unit", "default_branch": "main", "team_ids": []string{boTeam}}).Want(http.StatusCreated)
		ada.Post(acme, body{"name": "Web", "default_branch": "main", "teams_ids": []string{diTeam, servertest.AcmeTeamID}}).Want(http.StatusCreated)

		names := func(c *servertest.Client) (names []string) {
			for i, list := 0, c.Get(acme).Want(http.StatusOK); i < list.Len(""); i++ {
				names = append(names, list.String(fmt.Sprintf("%d.name", i)))
			}
			return names
		}
		for who, want := range map[*servertest.Client]string{ada: "Unit Web", bo: "Unit", di: "Web"} {
			if got := strings.Join(names(who), " "); got != want {
				t.Errorf("a member sees %q, want %q", got, want)
			}
		}
		bo.Get(acme+"/web").WantMessage(http.StatusNotFound, "No suite found")
		bo.Patch(acme+"/web", body{"name": "x"}).Want(http.StatusNotFound)
		bo.Delete(acme + "/web").Want(http.StatusNotFound)
		bo.Patch(acme+"/unit", body{"name": "Units"}).Want(http.StatusOK)
	})
}

func TestSuites_AreCreatedByTeamsThatMay(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		boTeam, diTeam := enableTeams(s)
		bo := s.As(t, servertest.Bo)
		create := func(name string, teams ...string) *servertest.Response {
			return bo.Post(acme, body{"name": name, "default_branch": "main", "team_ids": teams})
		}
		if resp := create("Unit", boTeam).Want(http.StatusForbidden); !strings.Contains(resp.String("message"), "create_suites") {
			t.Errorf("the message does not name the permission: %s", resp.Body)
		}
		s.As(t, servertest.Ada).Patch("/v2/organizations/acme/teams/backend", body{"members_can_create_suites": true}).Want(http.StatusOK)
		create("Unit", diTeam).WantFieldError("team_ids", "that you belong to")
		create("Unit", boTeam, diTeam).Want(http.StatusCreated)
		bo.Get(acme + "/unit").Want(http.StatusOK)
		s.As(t, "svcua_di").Get(acme + "/unit").Want(http.StatusOK)
	})
}

func TestSuites_StayVisibleWhenTeamsAreEnabled(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		cy := s.As(t, servertest.Cy)
		cy.Post(rival, body{"name": "Unit", "default_branch": "main"}).Want(http.StatusCreated)
		s.Apply(`
organizations:
  - slug: rival
    members:
      - {email: flo@rival.test, name: Flo, access_tokens: [{description: everything, token: svcua_flo, scopes: ["*"]}]}
`)
		cy.Post("/v2/organizations/rival/teams/enable", nil).Want(http.StatusNoContent)
		s.Clock.Advance(time.Second)
		s.As(t, "svcua_flo").Patch(rival+"/unit", body{"name": "Units"}).Want(http.StatusOK)
	})
}

func TestPipelineSuites_NeedThePipeline(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		newSuite(ada, "Unit")
		if got := ada.Get("/v2/analytics/organizations/acme/pipelines/hello/suites").Want(http.StatusOK); got.Len("") != 0 {
			t.Errorf("a pipeline without runs has suites: %s", got.Body)
		}
		ada.Get("/v2/analytics/organizations/acme/pipelines/nothing/suites").WantMessage(http.StatusNotFound, "No pipeline found")
	})
}
