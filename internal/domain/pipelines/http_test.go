package pipelines_test

import (
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const (
	path      = "/v2/organizations/acme/pipelines"
	hello     = path + "/hello"
	rivalPath = "/v2/organizations/rival/pipelines"
)

// yaml returns a minimal body that creates a YAML pipeline, with the fields of more.
func yaml(name string, more map[string]any) map[string]any {
	body := map[string]any{
		"name":          name,
		"cluster_id":    servertest.AcmeClusterID,
		"repository":    "https://git.example.test/acme/" + core.Slugify(name) + ".git",
		"configuration": "steps:\n  - command: make\n",
	}
	maps.Copy(body, more)
	return body
}

// visual returns a minimal body that creates a visual pipeline, with the fields of more.
func visual(name string, more map[string]any) map[string]any {
	body := yaml(name, nil)
	delete(body, "configuration")
	body["steps"] = []any{map[string]any{"type": "script", "name": "Test", "command": "make test"}}
	maps.Copy(body, more)
	return body
}

func without(body map[string]any, field string) map[string]any {
	body = maps.Clone(body)
	delete(body, field)
	return body
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestGet_ShowsEveryField(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		created := ada.Post(path, yaml("Big Pipeline", map[string]any{
			"repository":                          "git@github.com:Acme/big.git",
			"configuration":                       "env:\n  A: b\nsteps:\n  - label: Build\n    command: make\n  - wait\n",
			"description":                         "Builds the big thing",
			"allow_rebuilds":                      false,
			"branch_configuration":                "main release/*",
			"cancel_running_branch_builds":        true,
			"cancel_running_branch_builds_filter": "!main",
			"skip_queued_branch_builds":           true,
			"skip_queued_branch_builds_filter":    "feature/*",
			"clone_mirror_url":                    "https://mirror.example.test/acme/big.git",
			"color":                               "#A9CCE3",
			"emoji":                               ":rocket:",
			"default_branch":                      "trunk",
			"default_command_step_timeout":        30,
			"maximum_command_step_timeout":        60,
			"tags":                                []string{"go", "big"},
			"visibility":                          "public",
			"provider_settings":                   map[string]any{"build_tags": true, "trigger_mode": "deployment"},
		})).Want(http.StatusCreated)
		id, key := created.String("id"), created.String("badge_url")
		key = strings.TrimSuffix(key[strings.LastIndexByte(key, '/')+1:], ".svg")
		settings := created.At("provider.settings")
		hook := created.String("provider.webhook_url")
		if !strings.HasPrefix(hook, s.URL+"/hooks/github/") || len(hook) < len(s.URL+"/hooks/github/")+32 {
			t.Errorf("webhook_url %q", hook)
		}
		want := map[string]any{
			"id":                                  id,
			"graphql_id":                          core.GraphQLID("Pipeline", id),
			"url":                                 s.URL + path + "/big-pipeline",
			"web_url":                             s.URL + "/acme/big-pipeline",
			"name":                                "Big Pipeline",
			"description":                         "Builds the big thing",
			"slug":                                "big-pipeline",
			"repository":                          "git@github.com:Acme/big.git",
			"cluster_id":                          servertest.AcmeClusterID,
			"cluster_url":                         s.URL + "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID,
			"pipeline_template_uuid":              nil,
			"branch_configuration":                "main release/*",
			"clone_mirror_url":                    "https://mirror.example.test/acme/big.git",
			"default_branch":                      "trunk",
			"skip_queued_branch_builds":           true,
			"skip_queued_branch_builds_filter":    "feature/*",
			"cancel_running_branch_builds":        true,
			"cancel_running_branch_builds_filter": "!main",
			"allow_rebuilds":                      false,
			"provider":                            map[string]any{"id": "github", "webhook_url": hook, "settings": settings},
			"builds_url":                          s.URL + path + "/big-pipeline/builds",
			"badge_url":                           s.URL + "/badge/" + key + ".svg",
			"created_by": map[string]any{
				"id": servertest.AdaID, "graphql_id": core.GraphQLID("User", servertest.AdaID), "name": "Ada", "email": "ada@acme.test",
				"avatar_url": created.At("created_by.avatar_url"), "created_at": created.At("created_by.created_at"),
			},
			"created_at":                   s.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			"archived_at":                  nil,
			"env":                          map[string]any{},
			"scheduled_builds_count":       0.0,
			"running_builds_count":         0.0,
			"scheduled_jobs_count":         0.0,
			"running_jobs_count":           0.0,
			"waiting_jobs_count":           0.0,
			"visibility":                   "public",
			"tags":                         []any{"go", "big"},
			"emoji":                        ":rocket:",
			"color":                        "#A9CCE3",
			"default_command_step_timeout": 30.0,
			"maximum_command_step_timeout": 60.0,
			"steps": []any{
				map[string]any{
					"type": "script", "name": "Build", "command": "make", "artifact_paths": nil, "branch_configuration": nil, "env": map[string]any{},
					"timeout_in_minutes": nil, "agent_query_rules": []any{}, "concurrency": nil, "parallelism": nil,
				},
				map[string]any{"type": "waiter"},
			},
			"configuration": "env:\n  A: b\nsteps:\n  - label: Build\n    command: make\n  - wait\n",
		}
		wantEqual(t, "created", created.At(""), any(want))
		wantEqual(t, "read", ada.Get(path+"/big-pipeline").Want(http.StatusOK).At(""), any(want))
		wantEqual(t, "listed", ada.Get(path).Want(http.StatusOK).At("0"), any(want))
	})
}

func TestGet_ShowsNullWhereNothingIsSet(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		got := s.As(t, servertest.Ada).Post(path, yaml("Bare", nil)).Want(http.StatusCreated)
		for _, field := range []string{
			"pipeline_template_uuid", "branch_configuration", "clone_mirror_url", "skip_queued_branch_builds_filter",
			"cancel_running_branch_builds_filter", "archived_at", "tags", "emoji", "color",
			"default_command_step_timeout", "maximum_command_step_timeout",
		} {
			wantEqual(t, field, got.At(field), nil)
		}
		wantEqual(t, "allow_rebuilds", got.At("allow_rebuilds"), true)
		wantEqual(t, "visibility", got.At("visibility"), "private")
		wantEqual(t, "default_branch", got.At("default_branch"), "main")
		wantEqual(t, "description", got.At("description"), "")
		wantEqual(t, "provider.id", got.At("provider.id"), "git")
	})
}

func TestGet_FindsOnlyThePipelinesOfTheOrganization(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, cy := s.As(t, servertest.Ada), s.As(t, servertest.Cy)
		ada.Get(path+"/nothing").WantMessage(http.StatusNotFound, "No pipeline found")
		for _, impossible := range []string{"/%00", "/%FF", "/a%2Fb", "/HELLO"} {
			ada.Get(path + impossible).Want(http.StatusNotFound)
		}
		cy.Get(rivalPath+"/hello").WantMessage(http.StatusNotFound, "No pipeline found")
		cy.Get(path).WantMessage(http.StatusNotFound, "No organization found")
		for _, visited := range []string{hello, path + "/nothing", "/v2/organizations/nobody/pipelines/hello"} {
			cy.Get(visited).WantMessage(http.StatusNotFound, "No organization found")
		}
		cy.Patch(hello, map[string]any{"name": "Mine"}).WantMessage(http.StatusNotFound, "No organization found")
		cy.Delete(hello).WantMessage(http.StatusNotFound, "No organization found")
	})
}
