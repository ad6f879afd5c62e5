package interop

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

func TestTeams_FromCreationToDeletion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		create := buildkite.CreateTeam{
			Name: "Site Reliability", Description: "Keeps it up", Privacy: "secret", IsDefaultTeam: true, DefaultMemberRole: "maintainer",
			MembersCanCreatePipelines: true, MembersCanCreateSuites: true, MembersCanCreateRegistries: true,
			MembersCanDestroyRegistries: true, MembersCanDestroyPackages: true,
		}
		created := call(client.Teams.CreateTeam(ctx, "acme", create)).created(t)
		wantEmpty(t, created)
		if created.Slug != "site-reliability" || created.CreatedBy.ID != adaID || !reflect.DeepEqual(teamAgain(created), create) {
			t.Errorf("created %+v, want it of %+v", created, create)
		}
		for _, name := range []string{created.ID, created.Slug} {
			if got := get(client.Teams.GetTeam(ctx, "acme", name)).ok(t); !reflect.DeepEqual(got, created) {
				t.Errorf("got %+v by %q, want %+v as created", got, name, created)
			}
		}

		update := buildkite.CreateTeam{Description: "Keeps it up and running", Privacy: "visible"}
		updated := call(client.Teams.UpdateTeam(ctx, "acme", created.ID, update)).ok(t)
		update.Name, update.DefaultMemberRole = create.Name, create.DefaultMemberRole // not sent when empty
		if updated.Slug != created.Slug || teamAgain(updated) != update {
			t.Errorf("updated to %+v, want it of %+v", updated, update)
		}

		if _, err := client.Teams.DeleteTeam(ctx, "acme", created.ID); err != nil {
			t.Fatal(err)
		}
		get(client.Teams.GetTeam(ctx, "acme", created.ID)).refused(t, http.StatusNotFound, "No team found")
	})
}

// teamAgain returns the request that creates a copy of a team.
func teamAgain(team buildkite.Team) buildkite.CreateTeam {
	return buildkite.CreateTeam{
		Name:                        team.Name,
		Description:                 team.Description,
		Privacy:                     team.Privacy,
		IsDefaultTeam:               team.Default,
		DefaultMemberRole:           team.DefaultMemberRole,
		MembersCanCreatePipelines:   team.MembersCanCreatePipelines,
		MembersCanCreateSuites:      team.MembersCanCreateSuites,
		MembersCanCreateRegistries:  team.MembersCanCreateRegistries,
		MembersCanDestroyRegistries: team.MembersCanDestroyRegistries,
		MembersCanDestroyPackages:   team.MembersCanDestroyPackages,
	}
}

func TestTeams_AreListedByMember(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		for user, want := range map[string]int{"": 1, adaID: 1, boID: 0} {
			list := call(client.Teams.List(t.Context(), "acme", &buildkite.TeamsListOptions{UserID: user})).ok(t)
			if len(list) != want {
				t.Errorf("listed %d teams of user %q, want %d", len(list), user, want)
			}
		}
	})
}

func TestTeamMembers_JoinAndLeave(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		joined := call(client.TeamMember.CreateTeamMember(ctx, "acme", everyoneID, buildkite.CreateTeamMember{UserID: boID, Role: "member"})).created(t)
		wantEmpty(t, joined)
		if joined.ID != boID || joined.UserName != "Bo" || joined.Role != "member" {
			t.Errorf("joined %+v, want Bo as a member", joined)
		}
		promoted := call(client.TeamMember.UpdateTeamMember(ctx, "acme", everyoneID, boID, "maintainer")).ok(t)
		if promoted.Role != "maintainer" {
			t.Errorf("Bo's role is %q, want maintainer", promoted.Role)
		}
		if got := get(client.TeamMember.GetTeamMember(ctx, "acme", everyoneID, boID)).ok(t); got != promoted {
			t.Errorf("got %+v, want %+v", got, promoted)
		}
		if list := call(client.TeamMember.ListTeamMembers(ctx, "acme", everyoneID, nil)).ok(t); len(list) != 2 || list[0].ID != adaID || list[1] != promoted {
			t.Errorf("listed %+v, want Ada and %+v", list, promoted)
		}
		do(client.TeamMember.DeleteTeamMember(ctx, "acme", everyoneID, boID)).ok(t)
		get(client.TeamMember.GetTeamMember(ctx, "acme", everyoneID, boID)).refused(t, http.StatusNotFound, "No team member found")
	})
}

func TestTeamPipelines_GiveMembersAccess(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client, member := t.Context(), s.as(t, ada), s.as(t, bo)
		call(client.TeamMember.CreateTeamMember(ctx, "acme", everyoneID, buildkite.CreateTeamMember{UserID: boID})).created(t)
		call(member.Pipelines.Get(ctx, "acme", "hello")).refused(t, http.StatusNotFound, "No pipeline found")

		given := call(client.TeamPipelines.Create(ctx, "acme", everyoneID, buildkite.CreateTeamPipelines{PipelineID: helloID, AccessLevel: "read_only"})).created(t)
		wantEmpty(t, given)
		hello := call(member.Pipelines.Get(ctx, "acme", "hello")).ok(t)
		if given.ID != hello.ID || given.URL != hello.URL || given.AccessLevel != "read_only" {
			t.Errorf("given %+v, want to read %s at %s", given, hello.ID, hello.URL)
		}
		if hello.Provider.WebhookURL != "" {
			t.Error("a user who can only read the pipeline sees its webhook URL")
		}
		do(member.Pipelines.Archive(ctx, "acme", "hello")).refused(t, http.StatusForbidden, "Forbidden")

		raised := call(client.TeamPipelines.Update(ctx, "acme", everyoneID, helloID, buildkite.UpdateTeamPipelines{AccessLevel: "manage_build_and_read"})).ok(t)
		if got := call(client.TeamPipelines.Get(ctx, "acme", everyoneID, helloID)).ok(t); !reflect.DeepEqual(got, raised) || got.AccessLevel != "manage_build_and_read" {
			t.Errorf("got %+v, want %+v", got, raised)
		}
		if list := call(client.TeamPipelines.List(ctx, "acme", everyoneID, nil)).ok(t); !reflect.DeepEqual(list, []buildkite.TeamPipeline{raised}) {
			t.Errorf("listed %+v, want %+v alone", list, raised)
		}
		do(member.Pipelines.Archive(ctx, "acme", "hello")).ok(t)

		do(client.TeamPipelines.Delete(ctx, "acme", everyoneID, helloID)).ok(t)
		call(client.TeamPipelines.Get(ctx, "acme", everyoneID, helloID)).refused(t, http.StatusNotFound, "No team pipeline found")
	})
}

func TestPipelines_NewOneBelongsToTheTeamsThatAreNamed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		create := deploy()
		create.TeamUuids = []string{everyoneID}
		created := call(client.Pipelines.Create(ctx, "acme", create)).created(t)
		if got := call(client.TeamPipelines.Get(ctx, "acme", everyoneID, created.ID)).ok(t); got.AccessLevel != "manage_build_and_read" {
			t.Errorf("the team has %q, want manage_build_and_read", got.AccessLevel)
		}
	})
}
