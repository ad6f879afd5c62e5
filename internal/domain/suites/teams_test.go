package suites_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestTeamSuites_GiveTeamsAccess(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		boTeam, diTeam := enableTeams(s)
		ada, di := s.As(t, servertest.Ada), s.As(t, "svcua_di")
		suite := ada.Post(acme, body{"name": "Unit", "default_branch": "main", "team_ids": []string{boTeam}}).Want(http.StatusCreated).String("id")
		const teams = "/v2/organizations/acme/teams/"
		path := teams + diTeam + "/suites"
		di.Get(acme + "/unit").Want(http.StatusNotFound)
		added := ada.Post(path, body{"suite_id": suite, "access_level": []string{"read"}}).Want(http.StatusCreated)
		if added.String("suite_id") != suite || added.String("suite_url") != s.URL+acme+"/unit" || added.String("access_level") != "[read]" {
			t.Errorf("%s", added.Body)
		}
		di.Get(acme + "/unit").Want(http.StatusOK)
		if resp := di.Patch(acme+"/unit", body{"name": "Units"}).Want(http.StatusForbidden); resp.String("message") == "" {
			t.Errorf("%s", resp.Body)
		}
		di.Delete(acme + "/unit").Want(http.StatusForbidden)
		ada.Patch(path+"/"+suite, body{"access_level": []string{"read", "edit"}}).Want(http.StatusOK)
		di.Patch(acme+"/unit", body{"name": "Units"}).Want(http.StatusOK)
		if list := ada.Get(path).Want(http.StatusOK); list.Len("") != 1 || list.String("0.access_level") != "[read edit]" {
			t.Errorf("%s", list.Body)
		}
		ada.Get(path + "/" + suite).Want(http.StatusOK)
		ada.Get(path+"/"+core.NewID()).WantMessage(http.StatusNotFound, "No team suite found")
		ada.Get(path + "/x").Want(http.StatusNotFound)
		for problem, b := range map[string]body{
			"Validation failed: suite_id has already been added to the team":          {"suite_id": suite, "access_level": []string{"read"}},
			"Validation failed: suite_id must be the id of a suite that you may edit": {"suite_id": core.NewID(), "access_level": []string{"read"}},
			"Validation failed: access_level must be a list of read and edit":         {"suite_id": suite, "access_level": []string{"all"}},
			"Validation failed: access_level is required: a list of read and edit":    {"suite_id": suite},
		} {
			ada.Post(path, b).WantMessage(http.StatusUnprocessableEntity, problem)
		}
		di.Post(path, body{"suite_id": suite, "access_level": []string{"read"}}).Want(http.StatusForbidden)
		ada.Delete(path + "/" + suite).Want(http.StatusNoContent)
		di.Get(acme + "/unit").Want(http.StatusNotFound)
		ada.Post(teams+diTeam+"/suite", body{"suite_id": suite, "access_level": []string{"edit"}}).Want(http.StatusCreated)
		ada.Delete(teams + diTeam).Want(http.StatusNoContent)
		ada.Delete(acme + "/unit").Want(http.StatusNoContent)
	})
}

func TestTeamSuites_AreChangedByMaintainersWhoMayEditTheSuite(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		boTeam, diTeam := enableTeams(s)
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		ada.Patch("/v2/organizations/acme/teams/backend/members/"+servertest.BoID, body{"role": "maintainer"}).Want(http.StatusOK)
		own := ada.Post(acme, body{"name": "Own", "default_branch": "main", "team_ids": []string{boTeam}}).Want(http.StatusCreated).String("id")
		other := ada.Post(acme, body{"name": "Other", "default_branch": "main", "team_ids": []string{diTeam}}).Want(http.StatusCreated).String("id")
		path := "/v2/organizations/acme/teams/backend/suites"
		bo.Post(path, body{"suite_id": other, "access_level": []string{"edit"}}).WantMessage(http.StatusUnprocessableEntity, "Validation failed: suite_id must be the id of a suite that you may edit")
		ada.Post(path, body{"suite_id": other, "access_level": []string{"read"}}).Want(http.StatusCreated)
		bo.Patch(path+"/"+other, body{"access_level": []string{"edit"}}).Want(http.StatusForbidden)
		bo.Patch(path+"/"+own, body{"access_level": []string{"read"}}).Want(http.StatusOK)
	})
}
