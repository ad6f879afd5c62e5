package pipelines_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

// pipelinesOf returns an organization file with pipelines of acme.
func pipelinesOf(lines ...string) string {
	return "organizations:\n  - slug: acme\n    pipelines:\n      - " + strings.Join(lines, "\n        ") + "\n"
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

func TestApply_CreatesAndChangesPipelinesOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		id := core.NewID()
		file := pipelinesOf("slug: new", "id: "+id, "name: New One", "repository: git@github.com:acme/new.git", "description: Fresh",
			"default_branch: trunk", "visibility: public", "tags: [a, b]", "teams: {everyone: build_and_read}", "configuration: 'steps: [wait]'")
		wantLines(t, s.Apply(file), "created pipeline acme/new")
		wantLines(t, s.Apply(file))
		got := ada.Get(path + "/new").Want(http.StatusOK)
		for field, want := range map[string]any{
			"id": id, "name": "New One", "slug": "new", "repository": "git@github.com:acme/new.git", "description": "Fresh", "default_branch": "trunk",
			"visibility": "public", "tags": []any{"a", "b"}, "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [wait]",
			"steps": []any{map[string]any{"type": "waiter"}}, "created_by": nil, "provider.id": "github",
		} {
			wantEqual(t, field, got.At(field), want)
		}

		wantLines(t, s.Apply(pipelinesOf("slug: new", "name: Newer")), "changed pipeline acme/new")
		got = ada.Get(path + "/new").Want(http.StatusOK)
		wantEqual(t, "name", got.At("name"), "Newer")
		wantEqual(t, "description", got.At("description"), "Fresh")
		wantLines(t, s.Apply(pipelinesOf("slug: new", "teams: {everyone: read_only}")), "changed pipeline acme/new")
		wantLines(t, s.Apply(pipelinesOf("slug: new", "teams: {everyone: read_only}")))
		wantLines(t, s.Apply(pipelinesOf("slug: hello", "configuration: 'steps: [block]'")), "changed pipeline acme/hello")
		wantEqual(t, "steps", ada.Get(hello).At("steps.0.type"), "manual")
	})
}

func TestApply_LeavesAloneWhatTheFileDoesNotName(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Patch(hello, map[string]any{"description": "By hand", "emoji": ":wave:", "provider_settings": map[string]any{"filter_enabled": true}}).Want(http.StatusOK)
		before := ada.Get(hello).At("")
		wantLines(t, s.Apply(servertest.World))
		wantEqual(t, "after", ada.Get(hello).At(""), before)
	})
}

func TestApply_ComplainsWithTheLine(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for _, c := range []struct{ file, want string }{
			{pipelinesOf("slug: Bad Slug"), "line 4: the slug of a pipeline must begin with"},
			{pipelinesOf("slug: new", "id: 7"), `line 4: "7" is not a UUID`},
			{pipelinesOf("slug: new", "configuration: 'steps: 7'"), "line 4: pipeline new: configuration line 1, column 8"},
			{pipelinesOf("slug: new"), "line 4: pipeline new: configuration is required\nline 4: pipeline new: repository is required"},
			{pipelinesOf("slug: new", "repository: x", "name: Hello", "configuration: 'steps: [wait]'"), "line 4: pipeline new: name has already been taken"},
			{pipelinesOf("slug: new", "repository: x", "cluster: Nowhere", "configuration: 'steps: [wait]'"), `line 4: pipeline new: there is no cluster "Nowhere"`},
			{pipelinesOf("slug: new", "repository: x", "teams: {nobody: read_only}", "configuration: 'steps: [wait]'"), `line 4: pipeline new: there is no team "nobody"`},
			{pipelinesOf("slug: new", "teams: {everyone: owner}"), "line 4: the access level of team everyone must be one of"},
			{pipelinesOf("slug: new", "id: "+servertest.AcmePipelineID, "repository: x", "configuration: 'steps: [wait]'"), "line 4: the id " + servertest.AcmePipelineID + " belongs to another pipeline"},
			{pipelinesOf("slug: hello", "id: "+servertest.AcmeQueueID), "line 4: the pipeline hello exists with the id " + servertest.AcmePipelineID},
			{pipelinesOf("slug: hello", "visibility: secret"), "line 4: pipeline hello: visibility must be one of"},
			{pipelinesOf("slug: a", "repository: x", "configuration: 'steps: [wait]'\n      - slug: a"), `line 7: the pipeline "a" is already given at line 4`},
			{pipelinesOf("slug: a", "owner: me"), `line 5: unknown key "owner"`},
		} {
			_, err := orgfile.Apply(t.Context(), s.DB, s.Key, s.Clock.Now, []byte(c.file))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		}
		wantEqual(t, "pipelines", slugs(t, s.As(t, servertest.Ada).Get(path)), "hello")
	})
}
