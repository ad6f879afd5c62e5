package pipelines_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const (
	redID  = "0190c0de-0000-7000-8000-0000000000e2"
	blueID = "0190c0de-0000-7000-8000-0000000000e3"
	// rivalTeamID is a team of another organization.
	rivalTeamID = "0190c0de-0000-7000-8000-0000000000e4"
)

// switchTeamsOn gives acme teams: Bo is in red and blue, which can create pipelines as given.
func switchTeamsOn(t *testing.T, s *servertest.Server, redCreates, blueCreates bool) {
	t.Helper()
	s.Apply(`
organizations:
  - slug: acme
    features: {teams: true}
    teams:
      - {name: Red, slug: red, id: ` + redID + `, members: [bo@acme.test]}
      - {name: Blue, slug: blue, id: ` + blueID + `, members: [bo@acme.test]}
  - slug: rival
    teams:
      - {name: Theirs, slug: theirs, id: ` + rivalTeamID + `, members: [cy@rival.test]}
`)
	ada := s.As(t, servertest.Ada)
	ada.Patch("/v2/organizations/acme/teams/red", map[string]any{"members_can_create_pipelines": redCreates}).Want(http.StatusOK)
	ada.Patch("/v2/organizations/acme/teams/blue", map[string]any{"members_can_create_pipelines": blueCreates}).Want(http.StatusOK)
}

func TestAccess_WithoutTeamsEveryMemberManagesEveryPipeline(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		bo := s.As(t, servertest.Bo)
		bo.Post(path, yaml("By Bo", nil)).Want(http.StatusCreated)
		bo.Patch(hello, map[string]any{"description": "by Bo"}).Want(http.StatusOK)
		bo.Post(hello+"/archive", nil).Want(http.StatusOK)
		bo.Delete(hello).Want(http.StatusNoContent)
	})
}

func TestAccess_FollowsTheHighestLevelOfOnesTeams(t *testing.T) {
	const none = ""
	levels := []struct{ slug, red, blue, want string }{
		{"unseen", none, none, none},
		{"readable", "read_only", none, "read_only"},
		{"buildable", "build_and_read", "read_only", "build_and_read"},
		{"managed", "read_only", "manage_build_and_read", "manage_build_and_read"},
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		switchTeamsOn(t, s, false, false)
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		for _, p := range levels {
			teams := map[string]string{}
			for id, level := range map[string]string{redID: p.red, blueID: p.blue} {
				if level != none {
					teams[id] = level
				}
			}
			ada.Post(path, yaml(p.slug, map[string]any{"teams": teams})).Want(http.StatusCreated)
		}
		wantEqual(t, "what Bo sees", slugs(t, bo.Get(path)), "buildable managed readable")
		wantEqual(t, "what Ada sees", slugs(t, ada.Get(path)), "buildable hello managed readable unseen")
		for _, p := range levels {
			one := path + "/" + p.slug
			read, change := http.StatusOK, http.StatusForbidden
			switch p.want {
			case none:
				read, change = http.StatusNotFound, http.StatusNotFound
			case "manage_build_and_read":
				change = http.StatusOK
			}
			got := bo.Get(one).Want(read)
			if read == http.StatusOK && (got.String("provider.webhook_url") != "") != (change == http.StatusOK) {
				t.Errorf("webhook_url of %s is %q", p.slug, got.String("provider.webhook_url"))
			}
			refused := bo.Patch(one, map[string]any{"description": "x"}).Want(change)
			if change == http.StatusForbidden {
				refused.WantMessage(http.StatusForbidden, "Forbidden")
				bo.Post(one+"/archive", nil).WantMessage(http.StatusForbidden, "Forbidden")
				bo.Post(one+"/unarchive", nil).WantMessage(http.StatusForbidden, "Forbidden")
				bo.Post(one+"/webhook", nil).WantMessage(http.StatusForbidden, "Forbidden")
				bo.Delete(one).WantMessage(http.StatusForbidden, "Forbidden")
			}
		}
		bo.Post(path+"/managed/archive", nil).Want(http.StatusOK)
		bo.Delete(path + "/managed").Want(http.StatusNoContent)
	})
}

func TestAccess_APublicPipelineIsReadByAnybodyWithAToken(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		switchTeamsOn(t, s, false, false)
		ada, bo, cy := s.As(t, servertest.Ada), s.As(t, servertest.Bo), s.As(t, servertest.Cy)
		ada.Post(path, yaml("Open", map[string]any{"visibility": "public"})).Want(http.StatusCreated)
		for who, client := range map[string]*servertest.Client{"Bo": bo, "Cy": cy} {
			if got := client.Get(path + "/open").Want(http.StatusOK); got.Has("provider") || got.Has("repository") {
				t.Errorf("%s sees %s", who, got.Body)
			}
		}
		s.As(t, "").Get(path + "/open").Want(http.StatusUnauthorized)
		wantEqual(t, "Bo's list", slugs(t, bo.Get(path)), "open")
		wantEqual(t, "Bo's list by repository", slugs(t, bo.Get(path+"?repository=open")), "")
		bo.Patch(path+"/open", map[string]any{"name": "x"}).WantMessage(http.StatusForbidden, "Forbidden")
		cy.Patch(path+"/open", map[string]any{"name": "x"}).Want(http.StatusNotFound)
		cy.Get(path + "/open/source-webhooks").Want(http.StatusNotFound)
		ada.Patch(path+"/open", map[string]any{"visibility": "private"}).Want(http.StatusOK)
		cy.Get(path + "/open").Want(http.StatusNotFound)
	})
}

func TestAccess_AMemberOfATeamInAnotherOrganizationIsAVisitor(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		switchTeamsOn(t, s, false, false)
		// Cy becomes a member of acme and of red, with a token that has no access to acme.
		s.Apply("organizations:\n  - slug: acme\n    members: [{email: cy@rival.test}]\n    teams: [{name: Red, slug: red, members: [cy@rival.test]}]\n")
		s.As(t, servertest.Ada).Post(path, yaml("Reds", map[string]any{"teams": []string{redID}})).Want(http.StatusCreated)
		s.As(t, servertest.Cy).Get(path+"/reds").WantMessage(http.StatusNotFound, "No organization found")
	})
}

func TestWebhookURL_NeedsTheScopeToChangePipelines(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply("organizations:\n  - slug: acme\n    members: [{email: ada@acme.test, access_tokens: [{description: reader, token: svcua_reader, scopes: [read_pipelines]}]}]\n")
		reader := s.As(t, "svcua_reader")
		wantEqual(t, "webhook_url", reader.Get(hello).Want(http.StatusOK).At("provider.webhook_url"), "")
		wantEqual(t, "webhook_url", reader.Get(path).Want(http.StatusOK).At("0.provider.webhook_url"), "")
		reader.Patch(hello, nil).WantMessage(http.StatusForbidden, "Forbidden: your access token needs the scope write_pipelines")
		if s.As(t, servertest.Ada).Get(hello).String("provider.webhook_url") == "" {
			t.Error("Ada does not see the webhook_url")
		}
	})
}

func TestCreate_WithTeamsNeedsATeamOfOnesOwn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		bo := s.As(t, servertest.Bo)
		create := func(name string, teams any) *servertest.Response {
			return bo.Post(path, yaml(name, map[string]any{"teams": teams}))
		}
		switchTeamsOn(t, s, false, false)
		create("Refused", []string{redID}).WantMessage(http.StatusForbidden, "Forbidden: this needs the permission create_pipelines")

		switchTeamsOn(t, s, true, false)
		one := create("Only Team", nil).Want(http.StatusCreated)
		if one.String("provider.webhook_url") == "" {
			t.Error("Bo does not manage the pipeline that they created")
		}
		create("Refused", []string{blueID}).WantFieldError("teams", "at least one team that you belong to")
		create("Refused", []string{servertest.AcmeTeamID}).WantFieldError("teams", "at least one team that you belong to")
		create("With Others", []string{redID, servertest.AcmeTeamID}).Want(http.StatusCreated)

		switchTeamsOn(t, s, true, true)
		create("Refused", nil).WantFieldError("teams", "at least one team that you belong to")
		create("Refused", []string{}).WantFieldError("teams", "at least one team that you belong to")
		create("Chosen", []string{blueID}).Want(http.StatusCreated)
		s.As(t, servertest.Ada).Post(path, yaml("By Ada", nil)).Want(http.StatusCreated)
	})
}

func TestCreate_TakesTeamsInEveryForm(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		switchTeamsOn(t, s, false, false)
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		for i, form := range []map[string]any{
			{"teams": []string{redID}},
			{"team_uuids": []string{redID}},
			{"teams": []any{map[string]any{"id": redID, "access_level": "manage_build_and_read"}}},
			{"teams": []any{map[string]any{"uuid": redID, "access_level": "manage_build_and_read"}}},
			{"teams": []any{map[string]any{"id": redID}}},
			{"teams": map[string]any{redID: "manage_build_and_read"}},
			{"teams": map[string]any{redID: "manage_build_and_read"}, "team_uuids": []string{blueID}},
		} {
			name := string(rune('a' + i))
			ada.Post(path, yaml(name, form)).Want(http.StatusCreated)
			bo.Patch(path+"/"+name, map[string]any{"description": "managed"}).Want(http.StatusOK)
		}
		for _, form := range []map[string]any{
			{"teams": []any{map[string]any{"id": redID, "access_level": "read_only"}}},
			{"teams": map[string]any{redID: "read_only"}},
			{"teams": map[string]any{redID: "read_only"}, "team_uuids": []string{redID}},
		} {
			slug := ada.Post(path, yaml(core.NewID(), form)).Want(http.StatusCreated).String("slug")
			bo.Get(path + "/" + slug).Want(http.StatusOK)
			bo.Patch(path+"/"+slug, nil).Want(http.StatusForbidden)
		}
		ada.Post(path, yaml("Refused", map[string]any{"teams": []string{rivalTeamID}})).WantFieldError("teams", "must be teams of this organization; "+rivalTeamID+" is not")
	})
}

func TestVisibility_PublicNeedsPermission(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		open := map[string]any{"visibility": "public"}
		bo.Post(path, yaml("Refused", open)).WantFieldError("visibility", "cannot be public")
		bo.Patch(hello, open).WantFieldError("visibility", "cannot be public")
		ada.Patch(hello, open).Want(http.StatusOK)
		bo.Patch(hello, map[string]any{"visibility": "public", "description": "stays public"}).Want(http.StatusOK)
		ada.Patch(hello, map[string]any{"visibility": "private"}).Want(http.StatusOK)

		ada.Put("/v2/organizations/acme/pipeline-settings/public-pipelines", nil).Want(http.StatusOK)
		bo.Post(path, yaml("By The Setting", open)).Want(http.StatusCreated)
		ada.Delete("/v2/organizations/acme/pipeline-settings/public-pipelines").Want(http.StatusOK)
		bo.Patch(hello, open).WantFieldError("visibility", "cannot be public")

		s.Apply("organizations:\n  - slug: acme\n    members: [{email: bo@acme.test, permissions: [create_public_pipelines]}]\n")
		bo.Patch(hello, open).Want(http.StatusOK)
	})
}
