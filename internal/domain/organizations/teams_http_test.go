package organizations_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

const teams = "/v2/organizations/acme/teams"

func TestTeam_HasEveryField(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		created := ada.Post(teams, map[string]any{
			"name": "Release Crew", "description": "They ship.", "privacy": "secret", "is_default_team": true, "default_member_role": "maintainer",
			"members_can_create_pipelines": true, "members_can_create_suites": true, "members_can_create_registries": true,
			"members_can_destroy_registries": true, "members_can_destroy_packages": true,
		}).Want(201)
		id := created.String("id")
		for field, want := range map[string]string{
			"graphql_id":                     base64.StdEncoding.EncodeToString([]byte("Team---" + id)),
			"name":                           "Release Crew",
			"slug":                           "release-crew",
			"description":                    "They ship.",
			"privacy":                        "secret",
			"default":                        "true",
			"is_default_team":                "true",
			"default_member_role":            "maintainer",
			"members_can_create_pipelines":   "true",
			"members_can_create_suites":      "true",
			"members_can_create_registries":  "true",
			"members_can_destroy_registries": "true",
			"members_can_destroy_packages":   "true",
			"created_at":                     s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
			"created_by.id":                  servertest.AdaID,
		} {
			if got := created.String(field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		for _, name := range []string{"release-crew", id, strings.ToUpper(id), "release-crew/"} {
			if got := ada.Get(teams + "/" + name).Want(200); string(got.Body) != string(created.Body) {
				t.Errorf("%s is\n%s, want\n%s", name, got.Body, created.Body)
			}
		}
	})
}

func TestTeamCreate_HasDefaults(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		got := s.As(t, servertest.Ada).Post(teams, map[string]any{"name": "A"}).Want(201)
		for field, want := range map[string]string{
			"description": "", "privacy": "visible", "default": "false", "default_member_role": "member", "members_can_create_pipelines": "false",
		} {
			if v := got.String(field); v != want {
				t.Errorf("%s is %q, want %q", field, v, want)
			}
		}
	})
}

func TestTeamWrites_RefuseInvalidValues(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, c := range []struct {
			body map[string]any
			want string
		}{
			{map[string]any{}, "Validation failed: name is required"},
			{map[string]any{"name": " "}, "Validation failed: name is required"},
			{map[string]any{"name": nil}, "Validation failed: name is required"},
			{map[string]any{"name": strings.Repeat("é", 256)}, "Validation failed: name must have at most 255 characters"},
			{map[string]any{"name": "!"}, "Validation failed: name must have a letter or digit, and not be a word of this API"},
			{map[string]any{"name": "Enable"}, "Validation failed: name must have a letter or digit, and not be a word of this API"},
			{map[string]any{"name": "everyone"}, "Validation failed: name has already been taken: there is a team with the slug everyone"},
			{map[string]any{"name": "A", "description": strings.Repeat("a", 20_000)}, "Validation failed: description must have at most 16384 bytes"},
			{
				map[string]any{"name": "A", "privacy": "open", "default_member_role": "boss"},
				"Validation failed: privacy must be one of visible, secret, default_member_role must be one of member, maintainer",
			},
		} {
			ada.Post(teams, c.body).WantMessage(422, c.want)
		}
		ada.Post(teams, map[string]any{"name": 7, "privacy": true}).WantFieldError("name", "must be a string").WantFieldError("privacy", "must be a string")
		ada.Patch(teams+"/everyone", map[string]any{"name": ""}).WantMessage(422, "Validation failed: name is required")
		ada.Patch(teams+"/everyone", map[string]any{"privacy": nil}).WantMessage(422, "Validation failed: privacy must be one of visible, secret")
	})
}

func TestTeamUpdate_ChangesWhatIsGivenAndKeepsTheSlug(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		got := ada.Patch(teams+"/everyone", map[string]any{"name": "All of us", "is_default_team": true}).Want(200)
		if got.String("name") != "All of us" || got.String("slug") != "everyone" || got.String("default") != "true" || got.String("privacy") != "visible" {
			t.Errorf("got %s", got.Body)
		}
		if again := ada.Patch(teams+"/"+servertest.AcmeTeamID, nil).Want(200); string(again.Body) != string(got.Body) {
			t.Errorf("an empty change made %s of %s", again.Body, got.Body)
		}
		s.Apply(`organizations: [{slug: acme, members: [{email: dee@acme.test}]}]`)
		if n := ada.Get(teams + "/everyone/members").Want(200).Len(""); n != 2 {
			t.Errorf("%d are in the default team after a member joined, want 2", n)
		}
	})
}

func TestTeamDelete(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Delete(teams + "/everyone").Want(204)
		ada.Get(teams+"/everyone").WantMessage(404, "No team found")
		ada.Delete(teams + "/everyone").Want(404)
	})
}

func TestTeams_AreForAdministratorsToChange(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo, cy := s.As(t, servertest.Ada), s.As(t, servertest.Bo), s.As(t, servertest.Cy)
		ada.Post(teams+"/everyone/members", map[string]any{"user_id": servertest.BoID, "role": "maintainer"}).Want(201)
		bo.Get(teams + "/everyone").Want(200)
		const needs = "Forbidden: this needs an organization administrator (permission manage_teams)"
		bo.Post(teams, map[string]any{"name": "A"}).WantMessage(403, needs)
		bo.Post(teams+"/enable", nil).WantMessage(403, needs)
		bo.Patch(teams+"/everyone", map[string]any{"name": "A"}).WantMessage(403, needs)
		bo.Delete(teams+"/everyone").WantMessage(403, needs)
		cy.Get(teams + "/everyone").Want(404)
		cy.Get("/v2/organizations/rival/teams/"+servertest.AcmeTeamID).WantMessage(404, "No team found")
		cy.Patch("/v2/organizations/rival/teams/"+servertest.AcmeTeamID, map[string]any{"name": "Mine"}).Want(404)
		cy.Delete("/v2/organizations/rival/teams/" + servertest.AcmeTeamID).Want(404)
	})
}

func TestTeams_AreListedInPagesAndByUser(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, name := range []string{"Zebra", "Ant"} {
			s.Clock.Advance(time.Second)
			ada.Post(teams, map[string]any{"name": name}).Want(201)
		}
		if got := slugs(ada.Get(teams)); got != "everyone zebra ant" {
			t.Errorf("the teams are %s", got)
		}
		second := ada.Get(teams + "?per_page=2&page=2")
		if got := slugs(second); got != "ant" || !strings.Contains(second.Header.Get("Link"), `rel="prev"`) {
			t.Errorf("the second page is %s", got)
		}
		ada.Post(teams+"/zebra/members", map[string]any{"user_id": servertest.BoID}).Want(201)
		for user, want := range map[string]string{servertest.AdaID: "everyone", servertest.BoID: "zebra", servertest.CyID: ""} {
			if got := slugs(ada.Get(teams + "?user_id=" + user)); got != want {
				t.Errorf("the teams of %s are %q, want %q", user, got, want)
			}
		}
		ada.Get(teams+"?user_id=ada").WantMessage(400, "user_id must be a UUID")
		ada.Get(teams + "?page=0").Want(400)
	})
}

// slugs joins the slugs of a list.
func slugs(list *servertest.Response) string {
	var all []string
	for i := range list.Want(200).Len("") {
		all = append(all, list.String(fmt.Sprintf("%d.slug", i)))
	}
	return strings.Join(all, " ")
}

func TestSecretTeams_AreSeenByMembersAndAdministrators(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		s.Clock.Advance(time.Second)
		ada.Post(teams, map[string]any{"name": "Hidden", "privacy": "secret"}).Want(201)
		if got := slugs(ada.Get(teams)); got != "everyone hidden" {
			t.Errorf("an administrator sees %s", got)
		}
		if got := slugs(bo.Get(teams)); got != "everyone" {
			t.Errorf("a member sees %s", got)
		}
		for _, path := range []string{"", "/members", "/members/" + servertest.AdaID, "/pipelines", "/pipelines/" + servertest.AcmePipelineID} {
			bo.Get(teams+"/hidden"+path).WantMessage(404, "No team found")
		}
		bo.Post(teams+"/hidden/members", map[string]any{"user_id": servertest.BoID}).WantMessage(404, "No team found")

		ada.Post(teams+"/hidden/members", map[string]any{"user_id": servertest.BoID}).Want(201)
		if got := slugs(bo.Get(teams)); got != "everyone hidden" {
			t.Errorf("a member of the team sees %s", got)
		}
		bo.Get(teams + "/hidden").Want(200)
	})
}

func TestTeamCreate_ByTwoAtOnceMakesOne(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		var wg sync.WaitGroup
		var statuses [4]int
		for i := range statuses {
			wg.Go(func() { statuses[i] = ada.Post(teams, map[string]any{"name": "A"}).Status })
		}
		wg.Wait()
		made := 0
		for _, status := range statuses {
			if status == 201 {
				made++
			} else if status != 422 {
				t.Errorf("status %d", status)
			}
		}
		if made != 1 {
			t.Errorf("%d teams were made", made)
		}
	})
}

func TestEnableTeams_MakesATeamOfEverybodyOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Delete(teams + "/everyone").Want(204)
		for range 2 {
			ada.Post(teams+"/enable", nil).Want(204)
		}
		if got := slugs(ada.Get(teams)); got != "everyone" {
			t.Fatalf("the teams are %s", got)
		}
		everyone := ada.Get(teams + "/everyone").Want(200)
		if everyone.String("name") != "Everyone" || everyone.String("default") != "true" || everyone.String("members_can_create_pipelines") != "true" {
			t.Errorf("the team is %s", everyone.Body)
		}
		if n := ada.Get(teams + "/everyone/members").Want(200).Len(""); n != 2 {
			t.Errorf("%d are in it, want 2", n)
		}
		if got := ada.Get(teams + "/everyone/pipelines").Want(200); got.Len("") != 1 || got.String("0.access_level") != "manage_build_and_read" {
			t.Errorf("its pipelines are %s", got.Body)
		}
	})
}

func TestEnableTeams_LeavesExistingTeamsAndSwitchesTheFeatureOn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		bo.Get("/v2/organizations/acme/pipelines/hello").Want(200)
		ada.Post(teams+"/enable", nil).Want(204)
		if n := ada.Get(teams + "/everyone/members").Want(200).Len(""); n != 1 {
			t.Errorf("%d are in the team, want 1", n)
		}
		bo.Get("/v2/organizations/acme/pipelines/hello").Want(404)
	})
}
