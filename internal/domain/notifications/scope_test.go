package notifications_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// scoped returns the body of a webhook with a scope.
func scoped(scope string, ids ...string) body {
	if ids == nil {
		ids = []string{}
	}
	return with(service("webhook", nil), body{"scope": scope, "scope_uuids": ids})
}

func TestScope_IsCheckedAgainstTheOrganization(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		unknown := core.NewID()
		for scope, id := range map[string]string{
			"some_projects": servertest.AcmePipelineID, "exclude_projects": servertest.AcmePipelineID, "some_teams": servertest.AcmeTeamID, "some_clusters": servertest.AcmeClusterID,
		} {
			made := ada.Post(path, scoped(scope, strings.ToUpper(id), id)).Want(http.StatusCreated)
			wantEqual(t, scope, made.At("scope"), scope)
			wantEqual(t, "ids of "+scope, made.At("scope_uuids"), any([]any{id}))
			for _, other := range []string{unknown, servertest.RivalClusterID, servertest.AcmeQueueID} {
				ada.Post(path, scoped(scope, id, other)).WantFieldError("scope_uuids", "has "+other+", which is not a ")
				ada.Patch(path+"/"+made.String("id"), body{"scope_uuids": []string{other}}).WantFieldError("scope_uuids", "has "+other)
			}
			ada.Post(path, scoped(scope, "nonsense")).WantFieldError("scope_uuids", `has "nonsense", which is not a UUID`)
			ada.Post(path, with(scoped(scope), body{"scope_uuids": []any{nil}})).WantFieldError("scope_uuids", `has "", which is not a UUID`)
			many := make([]string, 501)
			for i := range many {
				many[i] = fmt.Sprintf("0190c0de-0000-7000-8000-%012d", i)
			}
			ada.Post(path, scoped(scope, many...)).WantFieldError("scope_uuids", "at most 500")
			if scope == "exclude_projects" {
				ada.Post(path, scoped(scope)).Want(http.StatusCreated)
				ada.Patch(path+"/"+made.String("id"), body{"scope_uuids": []string{}}).Want(http.StatusOK)
				continue
			}
			ada.Post(path, scoped(scope)).WantFieldError("scope_uuids", "must have at least one")
			ada.Post(path, with(service("webhook", nil), body{"scope": scope})).WantFieldError("scope_uuids", "must have at least one")
			ada.Patch(path+"/"+made.String("id"), body{"scope_uuids": []string{}}).WantFieldError("scope_uuids", "must have at least one")
		}
		// Ids are of what the scope selects, and all selects nothing.
		ada.Post(path, scoped("some_teams", servertest.AcmePipelineID)).WantFieldError("scope_uuids", "is not a team of this organization")
		ada.Post(path, scoped("some_clusters", servertest.AcmeTeamID)).WantFieldError("scope_uuids", "is not a cluster of this organization")
		ada.Post(path, scoped("some_projects", servertest.AcmeClusterID)).WantFieldError("scope_uuids", "is not a pipeline of this organization")
		ada.Post(path, scoped("all", servertest.AcmePipelineID)).WantFieldError("scope_uuids", "must be left out or empty when scope is all")
		ada.Post(path, with(service("webhook", nil), body{"scope_uuids": []string{servertest.AcmePipelineID}})).WantFieldError("scope_uuids", "when scope is all")
		ada.Post(path, scoped("all")).Want(http.StatusCreated)
	})
}

func TestScope_Changes(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		at := path + "/" + ada.Post(path, service("webhook", nil)).Want(http.StatusCreated).String("id")
		pipeline, team := []any{servertest.AcmePipelineID}, []any{servertest.AcmeTeamID}
		for _, step := range []struct {
			sent  body
			scope string
			ids   []any  // nil: refused
			text  string // why
		}{
			{body{"scope": "some_projects"}, "", nil, "must have at least one pipeline"},
			{body{"scope_uuids": pipeline}, "", nil, "when scope is all"},
			{body{"scope": "some_projects", "scope_uuids": pipeline}, "some_projects", pipeline, ""},
			{body{"scope": "some_projects"}, "some_projects", pipeline, ""},
			{body{"scope": "exclude_projects"}, "exclude_projects", pipeline, ""}, // the ids mean the same
			{body{"scope_uuids": []any{}}, "exclude_projects", []any{}, ""},
			{body{"scope": "some_projects"}, "", nil, "must have at least one pipeline"},
			{body{"scope_uuids": pipeline}, "exclude_projects", pipeline, ""},
			{body{"scope": "some_teams"}, "", nil, "must have at least one team"},
			{body{"scope": "some_teams", "scope_uuids": pipeline}, "", nil, "is not a team"},
			{body{"scope": "some_teams", "scope_uuids": team}, "some_teams", team, ""},
			{body{"scope": "all"}, "all", []any{}, ""}, // which selects nothing, so the ids go
			{body{"scope": "all", "scope_uuids": team}, "", nil, "when scope is all"},
			{body{"scope": "all", "scope_uuids": nil}, "all", []any{}, ""},
		} {
			patched := ada.Patch(at, step.sent)
			if step.ids == nil {
				patched.WantFieldError("scope_uuids", step.text)
				continue
			}
			wantEqual(t, "scope", patched.Want(http.StatusOK).At("scope"), step.scope)
			wantEqual(t, "scope_uuids", patched.At("scope_uuids"), any(step.ids))
			wantEqual(t, "get", ada.Get(at).At(""), patched.At(""))
		}
	})
}

func TestScope_ForgetsWhatIsDeleted(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		const acme = "/v2/organizations/acme"
		pipeline := ada.Post(acme+"/pipelines", body{"name": "Gone", "repository": "https://git.example.test/acme/gone.git", "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [{command: make}]"}).Want(http.StatusCreated).String("id")
		team := ada.Post(acme+"/teams", body{"name": "Gone", "privacy": "visible", "is_default_team": false, "default_member_role": "member"}).Want(http.StatusCreated).String("id")
		cluster := ada.Post(acme+"/clusters", body{"name": "Gone"}).Want(http.StatusCreated).String("id")
		deleted := map[string]string{
			"some_projects": pipeline, "exclude_projects": pipeline, "some_teams": team, "some_clusters": cluster,
		}
		kept := map[string]string{
			"some_projects": servertest.AcmePipelineID, "exclude_projects": servertest.AcmePipelineID, "some_teams": servertest.AcmeTeamID, "some_clusters": servertest.AcmeClusterID,
		}
		paths := make(map[string][2]string)
		for scope := range deleted {
			paths[scope] = [2]string{
				path + "/" + ada.Post(path, scoped(scope, deleted[scope], kept[scope])).Want(http.StatusCreated).String("id"),
				path + "/" + ada.Post(path, scoped(scope, deleted[scope])).Want(http.StatusCreated).String("id"),
			}
		}
		ada.Delete(acme + "/pipelines/gone").Want(http.StatusNoContent)
		ada.Delete(acme + "/teams/" + team).Want(http.StatusNoContent)
		ada.Delete(acme + "/clusters/" + cluster).Want(http.StatusNoContent)
		for scope, at := range paths {
			wantEqual(t, scope, ada.Get(at[0]).At("scope_uuids"), any([]any{kept[scope]}))
			empty := ada.Get(at[1]).Want(http.StatusOK)
			wantEqual(t, "scope", empty.At("scope"), scope)
			wantEqual(t, "scope_uuids", empty.At("scope_uuids"), any([]any{}))
			wantEqual(t, "patched", ada.Patch(at[1], string(empty.Body)).Want(http.StatusOK).At(""), empty.At(""))
			ada.Patch(at[0], body{"scope_uuids": []string{deleted[scope], kept[scope]}}).WantFieldError("scope_uuids", "has "+deleted[scope])
		}
		list := ada.Get(path).Want(http.StatusOK)
		if strings.Contains(string(list.Body), pipeline) || strings.Contains(string(list.Body), team) || strings.Contains(string(list.Body), cluster) {
			t.Errorf("the list shows what was deleted: %s", list.Body)
		}
	})
}

func TestCovers(t *testing.T) {
	build := notifications.Target{PipelineID: "p", TeamIDs: []string{"t", "u"}, ClusterID: "c"}
	agent := notifications.Target{ClusterID: "c"}
	for _, c := range []struct {
		scope        notifications.Scope
		ids          string
		build, agent bool
	}{
		{notifications.All, "", true, true},
		{notifications.SomeProjects, "p", true, false},
		{notifications.SomeProjects, "q p", true, false},
		{notifications.SomeProjects, "q", false, false},
		{notifications.SomeProjects, "", false, false},
		{notifications.ExcludeProjects, "p", false, false},
		{notifications.ExcludeProjects, "q", true, false},
		{notifications.ExcludeProjects, "", true, false},
		{notifications.SomeTeams, "u", true, false},
		{notifications.SomeTeams, "v", false, false},
		{notifications.SomeTeams, "", false, false},
		{notifications.SomeClusters, "c", true, true},
		{notifications.SomeClusters, "d", false, false},
		{notifications.SomeClusters, "", false, false},
	} {
		r := &notifications.Receiver{Scope: c.scope, ScopeIDs: strings.Fields(c.ids)}
		wantEqual(t, fmt.Sprintf("%s [%s] covers a build", c.scope, c.ids), r.Covers(build), c.build)
		wantEqual(t, fmt.Sprintf("%s [%s] covers an agent", c.scope, c.ids), r.Covers(agent), c.agent)
	}
}
