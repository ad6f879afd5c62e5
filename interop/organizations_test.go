package interop

import (
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

// Ada belongs to two organizations; each of her tokens belongs to one of them.
func TestOrganizations_AreThoseOfTheToken(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for token, slug := range map[string]string{ada: "acme", hurried: "busy"} {
			client := s.as(t, token)
			list := call(client.Organizations.List(t.Context(), nil)).ok(t)
			if len(list) != 1 || list[0].Slug != slug {
				t.Fatalf("listed %+v, want %s alone", list, slug)
			}
			wantEmpty(t, list[0], "Repository") // organizations have none
			if got := call(client.Organizations.Get(t.Context(), slug)).ok(t); !reflect.DeepEqual(got, list[0]) {
				t.Errorf("got %+v, want %+v as listed", got, list[0])
			}
			call(client.Organizations.Get(t.Context(), "rival")).refused(t, http.StatusNotFound, "No organization found")
		}
	})
}

func TestMembers_AreListed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		want := []buildkite.Member{
			{UUID: adaID, Name: "Ada", Email: "ada@acme.test"},
			{UUID: boID, Name: "Bo", Email: "bo@acme.test"},
		}
		if got := call(client.Members.List(t.Context(), "acme", nil)).ok(t); !slices.Equal(got, want) {
			t.Errorf("listed %+v, want %+v", got, want)
		}
		if got := call(client.Members.Get(t.Context(), "acme", boID)).ok(t); got != want[1] {
			t.Errorf("got %+v, want %+v", got, want[1])
		}
		call(client.Members.Get(t.Context(), "acme", unknownID)).refused(t, http.StatusNotFound, "No member found")
	})
}

func TestUser_IsTheTokensOwner(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		user := call(s.as(t, bo).User.CurrentUser(t.Context())).ok(t)
		wantEmpty(t, user)
		if user.ID != boID || user.Name != "Bo" || user.Email != "bo@acme.test" {
			t.Errorf("the user is %+v, want Bo", user)
		}
	})
}

func TestAccessToken_ShowsItsScopes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		all := call(s.as(t, ada).AccessTokens.Get(t.Context())).ok(t)
		wantEmpty(t, all)
		if all.Description != "everything" || all.User.Name != "Ada" || all.User.Email != "ada@acme.test" || all.ExpiresAt.Year() != 2099 {
			t.Errorf("the token is %+v, want Ada's", all)
		}
		if !slices.Contains(all.Scopes, "read_pipelines") || !slices.Contains(all.Scopes, "write_clusters") {
			t.Errorf("the token for everything has the scopes %q", all.Scopes)
		}
		one := call(s.as(t, reader).AccessTokens.Get(t.Context())).ok(t)
		if !slices.Equal(one.Scopes, []string{"read_pipelines"}) || one.ExpiresAt != nil {
			t.Errorf("the token is %+v, want one with the scope read_pipelines that never expires", one)
		}
	})
}

func TestAccessToken_IsRevokedByItsHolder(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, spare)
		do(client.AccessTokens.Revoke(t.Context())).ok(t)
		call(client.AccessTokens.Get(t.Context())).refused(t, http.StatusUnauthorized, unauthorized)
	})
}

func TestMeta_NeedsNoToken(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := buildkite.NewClient(buildkite.WithBaseURL(s.url + "/"))
		if err != nil {
			t.Fatal(err)
		}
		call(client.Meta.Get(t.Context())).ok(t)
	})
}

func TestEmojis_AreNone(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		if list := call(s.as(t, ada).ListEmojis(t.Context(), "acme")).ok(t); len(list) != 0 {
			t.Errorf("listed %+v, want none", list)
		}
	})
}
