package organizations_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

const members = "/v2/organizations/acme/members"

func TestMembers_AreListedInPages(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, members: [{email: dee@acme.test}]}]`)
		ada := s.As(t, servertest.Ada)
		all := ada.Get(members).Want(200)
		if all.Len("") != 3 || all.String("0.id") != servertest.AdaID || all.String("1.name") != "Bo" || all.String("2.email") != "dee@acme.test" {
			t.Errorf("the members are %s", all.Body)
		}
		second := ada.Get(members + "?page=2&per_page=2").Want(200)
		if second.Len("") != 1 || second.String("0.email") != "dee@acme.test" {
			t.Errorf("the second page is %s", second.Body)
		}
		ada.Get(members+"?per_page=101").WantMessage(400, "per_page must be an integer from 1 to 100")
		s.As(t, servertest.Cy).Get(members).Want(404)
	})
}

func TestMember_ShowsSSOModeToAdministratorsAndSelf(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for _, c := range []struct {
			token, id string
			sees      bool
		}{
			{servertest.Ada, servertest.BoID, true},
			{servertest.Bo, servertest.BoID, true},
			{servertest.Bo, servertest.AdaID, false},
		} {
			got := s.As(t, c.token).Get(members + "/" + c.id).Want(200)
			if got.String("id") != c.id || got.Has("sso_mode") != c.sees {
				t.Errorf("%s sees %s", c.token, got.Body)
			}
		}
		for _, unknown := range []string{servertest.CyID, "bo"} {
			s.As(t, servertest.Ada).Get(members+"/"+unknown).WantMessage(404, "No member found")
		}
	})
}

func TestMemberUpdate_ChangesRoleAndModeAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		path := members + "/" + servertest.BoID
		bo.Patch(members+"/"+servertest.AdaID, map[string]any{"role": "member"}).Want(403)
		got := ada.Patch(path, map[string]any{"role": "admin"}).Want(200)
		if got.String("role") != "admin" || got.String("sso_mode") != "optional" {
			t.Errorf("got %s", got.Body)
		}
		if got := bo.Patch(members+"/"+servertest.AdaID, map[string]any{"sso_mode": "required"}).Want(200); got.String("sso_mode") != "required" || got.String("role") != "admin" {
			t.Errorf("the new administrator got %s", got.Body)
		}
		ada.Patch(path, map[string]any{"role": "member"}).Want(200)
		bo.Patch(members+"/"+servertest.AdaID, map[string]any{"role": "member"}).Want(403)
	})
}

func TestMemberUpdate_Refuses(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := members + "/" + servertest.BoID
		ada.Patch(members+"/"+servertest.AdaID, map[string]any{"role": "member"}).
			WantMessage(403, "Forbidden: you cannot change your own membership; ask another administrator")
		ada.Patch(path, nil).WantMessage(422, "Give a role or an sso_mode to change")
		ada.Patch(path, map[string]any{"colour": "red"}).WantMessage(422, "Give a role or an sso_mode to change")
		ada.Patch(path, map[string]any{"role": "owner"}).WantFieldError("role", "must be one of admin, member")
		ada.Patch(path, map[string]any{"role": nil}).WantFieldError("role", "must be one of admin, member")
		ada.Patch(path, map[string]any{"role": 7}).WantFieldError("role", "must be a string")
		ada.Patch(path, map[string]any{"sso_mode": "maybe"}).WantFieldError("sso_mode", "must be one of required, optional")
		ada.Patch(members+"/"+servertest.CyID, map[string]any{"role": "admin"}).WantMessage(404, "No member found")
		s.As(t, servertest.Cy).Patch(path, map[string]any{"role": "admin"}).Want(404)
	})
}

func TestMemberDelete_EndsAccessAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [
			{slug: acme, teams: [{name: Everyone, members: [bo@acme.test]}]},
			{slug: rival, members: [{email: bo@acme.test, access_tokens: [{description: everything, token: svcua_bo, scopes: ["*"]}]}]}]`)
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		ada.Post("/v2/organizations/acme/clusters/"+servertest.AcmeClusterID+"/maintainers", map[string]any{"user": servertest.BoID}).Want(201)
		bo.Get(members).Want(200)
		bo.Delete(members + "/" + servertest.BoID).Want(403)

		ada.Delete(members + "/" + servertest.BoID).Want(204)
		bo.Get(members).WantMessage(404, "No organization found")
		bo.Get("/v2/organizations/rival").Want(200)
		ada.Get(members + "/" + servertest.BoID).Want(404)
		ada.Delete(members + "/" + servertest.BoID).Want(404)
		if n := ada.Get("/v2/organizations/acme/teams/everyone/members").Want(200).Len(""); n != 1 {
			t.Errorf("%d are in the team, want 1", n)
		}

		s.Apply(`organizations: [{slug: acme, members: [{email: bo@acme.test}]}]`)
		bo.Get(members).Want(404) // the token does not get access to acme again by itself
		for _, table := range []string{"team_members", "cluster_maintainers"} {
			var n int
			err := s.DB.Read(t.Context(), func(q *db.Q) error {
				return q.QueryRow(`SELECT COUNT(*) FROM `+table+` WHERE user_id = $1`, servertest.BoID).Scan(&n)
			})
			if err != nil || n != 0 {
				t.Errorf("%d rows are left in %s, %v", n, table, err)
			}
		}
	})
}

func TestMemberDelete_KeepsTheLastAdministrator(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Delete(members+"/"+servertest.AdaID).WantMessage(422, "The last administrator of an organization cannot be removed")
		ada.Get(members).Want(200)
		ada.Patch(members+"/"+servertest.BoID, map[string]any{"role": "admin"}).Want(200)
		ada.Delete(members + "/" + servertest.AdaID).Want(204)
		s.As(t, servertest.Bo).Delete(members + "/" + servertest.BoID).Want(422)
	})
}

// Two administrators who demote each other at the same moment both pass the check before either writes. Only
// one can succeed.
func TestMembers_KeepAnAdministratorWhenTwoActAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		for range 10 {
			s.Apply(`organizations: [{slug: acme, members: [{email: ada@acme.test, role: admin}, {email: bo@acme.test, role: admin}]}]`)
			var wg sync.WaitGroup
			var statuses [2]int
			wg.Go(func() {
				statuses[0] = ada.Patch(members+"/"+servertest.BoID, map[string]any{"role": "member"}).Status
			})
			wg.Go(func() {
				statuses[1] = bo.Patch(members+"/"+servertest.AdaID, map[string]any{"role": "member"}).Status
			})
			wg.Wait()
			slices.Sort(statuses[:])
			if got := fmt.Sprint(statuses); got != "[200 403]" && got != "[200 422]" {
				t.Fatalf("statuses are %s", got)
			}
		}
	})
}
