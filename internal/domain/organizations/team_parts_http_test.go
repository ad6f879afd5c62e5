package organizations_test

import (
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

const (
	teamMembers   = teams + "/everyone/members"
	teamPipelines = teams + "/everyone/pipelines"
)

func TestTeamMembers_Lifecycle(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		s.Clock.Advance(time.Second)
		added := ada.Post(teamMembers, map[string]any{"user_id": servertest.BoID}).Want(201)
		for field, want := range map[string]string{
			"user_id": servertest.BoID, "user_name": "Bo", "role": "member", "created_at": s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
		} {
			if got := added.String(field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		bo := teamMembers + "/" + servertest.BoID
		if got := ada.Get(bo).Want(200); string(got.Body) != string(added.Body) {
			t.Errorf("got %s, want %s", got.Body, added.Body)
		}
		if list := ada.Get(teamMembers).Want(200); list.Len("") != 2 || list.String("0.user_id") != servertest.AdaID {
			t.Errorf("the list is %s", list.Body)
		}
		if page := ada.Get(teamMembers + "?per_page=1&page=2").Want(200); page.Len("") != 1 || page.String("0.user_id") != servertest.BoID {
			t.Errorf("the second page is %s", page.Body)
		}
		if got := ada.Patch(bo, map[string]any{"role": "maintainer"}).Want(200); got.String("role") != "maintainer" {
			t.Errorf("got %s", got.Body)
		}
		ada.Delete(bo).Want(204)
		ada.Get(bo).WantMessage(404, "No team member found")
		ada.Delete(bo).Want(404)
		ada.Patch(bo, map[string]any{"role": "member"}).Want(404)
		ada.Get(teamMembers + "/bo").Want(404)
	})
}

func TestTeamMembers_JoinWithTheTeamsDefaultRole(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Patch(teams+"/everyone", map[string]any{"default_member_role": "maintainer"}).Want(200)
		if got := ada.Post(teamMembers, map[string]any{"user_id": servertest.BoID}).Want(201); got.String("role") != "maintainer" {
			t.Errorf("got %s", got.Body)
		}
	})
}

func TestTeamMembers_RefuseInvalidValues(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		const unknown = "Validation failed: user_id must be the id of a member of the organization"
		ada.Post(teamMembers, nil).WantMessage(422, unknown)
		ada.Post(teamMembers, map[string]any{"user_id": "bo"}).WantMessage(422, unknown)
		ada.Post(teamMembers, map[string]any{"user_id": servertest.CyID}).WantMessage(422, unknown)
		ada.Post(teamMembers, map[string]any{"user_id": servertest.AdaID}).WantMessage(422, "Validation failed: user_id is already a member of the team")
		ada.Post(teamMembers, map[string]any{"user_id": servertest.BoID, "role": "boss"}).WantMessage(422, "Validation failed: role must be one of member, maintainer")
		ada.Patch(teamMembers+"/"+servertest.AdaID, nil).WantMessage(422, "Validation failed: role must be one of member, maintainer")
	})
}

func TestTeamMaintainers_ChangeWhoIsInTheirTeam(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, members: [{email: dee@acme.test, id: 0190c0de-0000-7000-8000-0000000000f2}]}]`)
		const dee = "0190c0de-0000-7000-8000-0000000000f2"
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		const needs = "Forbidden: this needs an organization administrator, or a maintainer of the team (permission manage_team)"
		ada.Post(teamMembers, map[string]any{"user_id": servertest.BoID}).Want(201)
		bo.Post(teamMembers, map[string]any{"user_id": dee}).WantMessage(403, needs)
		bo.Patch(teamMembers+"/"+servertest.BoID, map[string]any{"role": "maintainer"}).WantMessage(403, needs)
		bo.Delete(teamMembers+"/"+servertest.AdaID).WantMessage(403, needs)

		ada.Patch(teamMembers+"/"+servertest.BoID, map[string]any{"role": "maintainer"}).Want(200)
		bo.Post(teamMembers, map[string]any{"user_id": dee}).Want(201)
		bo.Patch(teamMembers+"/"+dee, map[string]any{"role": "maintainer"}).Want(200)
		bo.Delete(teamMembers + "/" + dee).Want(204)
		ada.Post(teams, map[string]any{"name": "Other"}).Want(201)
		bo.Post(teams+"/other/members", map[string]any{"user_id": dee}).WantMessage(403, needs)
	})
}

func TestTeamPipelines_Lifecycle(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		added := ada.Post(teamPipelines, map[string]any{"pipeline_id": servertest.AcmePipelineID, "access_level": "read_only"}).Want(201)
		for field, want := range map[string]string{
			"pipeline_id":  servertest.AcmePipelineID,
			"pipeline_url": s.URL + "/v2/organizations/acme/pipelines/hello",
			"access_level": "read_only",
			"created_at":   s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
		} {
			if got := added.String(field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		hello := teamPipelines + "/" + servertest.AcmePipelineID
		if got := ada.Get(hello).Want(200); string(got.Body) != string(added.Body) {
			t.Errorf("got %s, want %s", got.Body, added.Body)
		}
		if list := ada.Get(teamPipelines + "?per_page=1").Want(200); list.Len("") != 1 || list.Header.Get("Link") != "" {
			t.Errorf("the list is %s", list.Body)
		}
		if got := ada.Patch(hello, map[string]any{"access_level": "build_and_read"}).Want(200); got.String("access_level") != "build_and_read" {
			t.Errorf("got %s", got.Body)
		}
		ada.Delete(hello).Want(204)
		ada.Get(hello).WantMessage(404, "No team pipeline found")
		ada.Patch(hello, map[string]any{"access_level": "read_only"}).Want(404)
		ada.Delete(hello).Want(404)
		ada.Get(teamPipelines + "/hello").Want(404)
	})
}

func TestTeamPipelines_RefuseInvalidValues(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: rival, pipelines: [{slug: theirs, id: 0190c0de-0000-7000-8000-0000000000a2, name: Theirs, repository: "https://git.example.test/theirs.git", cluster: Default, configuration: "steps: [{command: echo}]"}]}]`)
		ada := s.As(t, servertest.Ada)
		const unknown = "Validation failed: pipeline_id must be the id of a pipeline that you may manage"
		for _, id := range []any{"", "hello", servertest.AdaID, "0190c0de-0000-7000-8000-0000000000a2"} {
			ada.Post(teamPipelines, map[string]any{"pipeline_id": id, "access_level": "read_only"}).WantMessage(422, unknown)
		}
		const level = "Validation failed: access_level must be one of read_only, build_and_read, manage_build_and_read"
		ada.Post(teamPipelines, map[string]any{"pipeline_id": servertest.AcmePipelineID}).WantMessage(422, level)
		ada.Post(teamPipelines, map[string]any{"pipeline_id": servertest.AcmePipelineID, "access_level": "all"}).WantMessage(422, level)
		body := map[string]any{"pipeline_id": servertest.AcmePipelineID, "access_level": "read_only"}
		ada.Post(teamPipelines, body).Want(201)
		ada.Post(teamPipelines, body).WantMessage(422, "Validation failed: pipeline_id has already been added to the team")
		ada.Patch(teamPipelines+"/"+servertest.AcmePipelineID, nil).WantMessage(422, level)
	})
}

// With teams enabled, a maintainer must not give the team access to a pipeline that the maintainer cannot
// manage, nor find out through a team which pipelines exist.
func TestTeamMaintainers_GiveAccessOnlyToPipelinesTheyManage(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, features: {teams: true}, teams: [{name: Everyone}, {name: Crew}]}]`)
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		crew := teams + "/crew"
		ada.Post(crew+"/members", map[string]any{"user_id": servertest.BoID, "role": "maintainer"}).Want(201)
		hello := map[string]any{"pipeline_id": servertest.AcmePipelineID, "access_level": "manage_build_and_read"}

		bo.Post(crew+"/pipelines", hello).WantMessage(422, "Validation failed: pipeline_id must be the id of a pipeline that you may manage")
		ada.Post(teamPipelines, hello).Want(201)
		if n := bo.Get(teamPipelines).Want(200).Len(""); n != 0 {
			t.Errorf("a member sees %d pipelines of a team that is not theirs", n)
		}
		bo.Get(teamPipelines+"/"+servertest.AcmePipelineID).WantMessage(404, "No team pipeline found")

		ada.Post(crew+"/pipelines", map[string]any{"pipeline_id": servertest.AcmePipelineID, "access_level": "build_and_read"}).Want(201)
		single := crew + "/pipelines/" + servertest.AcmePipelineID
		bo.Get(single).Want(200)
		bo.Patch(single, map[string]any{"access_level": "manage_build_and_read"}).Want(403)
		bo.Delete(single).Want(403)

		ada.Patch(single, map[string]any{"access_level": "manage_build_and_read"}).Want(200)
		bo.Patch(single, map[string]any{"access_level": "read_only"}).Want(200)
		bo.Delete(teamPipelines + "/" + servertest.AcmePipelineID).Want(403)
	})
}
