package clusters_test

import (
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const maintainers = home + "/maintainers"

func TestMaintainers_AreUsersAndTeams(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		user := ada.Post(maintainers, body{"user": servertest.BoID}).Want(http.StatusCreated)
		s.Clock.Advance(time.Second)
		team := ada.Post(maintainers, body{"team": servertest.AcmeTeamID, "user": nil}).Want(http.StatusCreated)
		for path, want := range map[string]any{
			"actor.id":         servertest.BoID,
			"actor.graphql_id": core.GraphQLID("User", servertest.BoID),
			"actor.type":       "user",
			"actor.name":       "Bo",
			"actor.email":      "bo@acme.test",
		} {
			if got := user.At(path); got != want {
				t.Errorf("the user's %s is %v, want %v", path, got, want)
			}
		}
		for path, want := range map[string]any{
			"actor.id":         servertest.AcmeTeamID,
			"actor.graphql_id": core.GraphQLID("Team", servertest.AcmeTeamID),
			"actor.type":       "team",
			"actor.name":       "Everyone",
			"actor.slug":       "everyone",
		} {
			if got := team.At(path); got != want {
				t.Errorf("the team's %s is %v, want %v", path, got, want)
			}
		}
		if user.Has("actor.slug") || team.Has("actor.email") {
			t.Errorf("a user with a slug or a team with an address: %s %s", user.Body, team.Body)
		}
		list := ada.Get(maintainers).Want(http.StatusOK)
		if list.Len("") != 2 || list.At("0.id") != user.At("id") || list.At("1.id") != team.At("id") {
			t.Errorf("the list is %s", list.Body)
		}
		for _, made := range []*servertest.Response{user, team} {
			path := maintainers + "/" + made.String("id")
			if got := ada.Get(path).Want(http.StatusOK); string(got.Body) != string(made.Body) {
				t.Errorf("get shows %s\ncreate showed %s", got.Body, made.Body)
			}
			ada.Delete(path).Want(http.StatusNoContent)
			ada.Get(path).WantMessage(http.StatusNotFound, "No cluster maintainer found")
			ada.Delete(path).Want(http.StatusNotFound)
		}
	})
}

func TestAddMaintainer_ReportsProblems(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(maintainers, body{"user": servertest.AdaID}).Want(http.StatusCreated)
		ada.Post(maintainers, body{"team": servertest.AcmeTeamID}).Want(http.StatusCreated)
		for _, c := range []struct {
			sent        any
			field, text string
		}{
			{nil, "user", "or team must be given, and not both"},
			{body{"user": "", "team": nil}, "user", "or team must be given, and not both"},
			{body{"user": servertest.BoID, "team": servertest.AcmeTeamID}, "user", "or team must be given, and not both"},
			{body{"user": "bo@acme.test"}, "user", "must be a UUID"},
			{body{"team": "everyone"}, "team", "must be a UUID"},
			{body{"user": servertest.CyID}, "user", "must be the id of one in this organization"},
			{body{"user": core.NewID()}, "user", "must be the id of one in this organization"},
			{body{"team": servertest.BoID}, "team", "must be the id of one in this organization"},
			{body{"user": servertest.AdaID}, "user", "is already a maintainer of this cluster"},
			{body{"team": servertest.AcmeTeamID}, "team", "is already a maintainer of this cluster"},
		} {
			ada.Post(maintainers, c.sent).WantFieldError(c.field, c.text)
		}
	})
}

func TestMaintainer_MayNoMoreOnceRemoved(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		bo.Post(maintainers, body{"user": servertest.BoID}).Want(http.StatusForbidden)
		made := ada.Post(maintainers, body{"user": servertest.BoID}).Want(http.StatusCreated)
		bo.Patch(home, body{"description": "mine"}).Want(http.StatusOK)
		bo.Delete(maintainers + "/" + made.String("id")).Want(http.StatusNoContent)
		bo.Patch(home, body{"description": "still mine"}).Want(http.StatusForbidden)
	})
}
