package pipelines_test

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestUpdate_ChangesOnlyWhatIsSent(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		other := ada.Post("/v2/organizations/acme/clusters", map[string]any{"name": "Other"}).Want(http.StatusCreated).String("id")
		want := ada.Post(path, yaml("Subject", nil)).Want(http.StatusCreated).At("").(map[string]any)
		for _, step := range []struct {
			field      string
			sent, then any
		}{
			{"name", " Renamed ", "Renamed"},
			{"description", "Words", "Words"},
			{"description", nil, ""},
			{"cluster_id", other, other},
			{"default_branch", "trunk", "trunk"},
			{"default_branch", "", "main"},
			{"branch_configuration", "main", "main"},
			{"branch_configuration", "", nil},
			{"skip_queued_branch_builds", true, true},
			{"skip_queued_branch_builds", nil, true},
			{"skip_queued_branch_builds_filter", "x/*", "x/*"},
			{"skip_queued_branch_builds_filter", nil, nil},
			{"cancel_running_branch_builds", true, true},
			{"cancel_running_branch_builds_filter", "!main", "!main"},
			{"allow_rebuilds", false, false},
			{"allow_rebuilds", nil, false},
			{"clone_mirror_url", "ssh://git@mirror.example.test/app.git", "ssh://git@mirror.example.test/app.git"},
			{"clone_mirror_url", "", nil},
			{"color", "#ffffff", "#ffffff"},
			{"color", nil, nil},
			{"emoji", "🚀", "🚀"},
			{"emoji", nil, nil},
			{"default_command_step_timeout", 5, 5.0},
			{"maximum_command_step_timeout", 5, 5.0},
			{"default_command_step_timeout", nil, nil},
			{"maximum_command_step_timeout", nil, nil},
			{"tags", []string{"a", "b"}, []any{"a", "b"}},
			{"tags", []string{}, nil},
			{"visibility", "public", "public"},
			{"visibility", "private", "private"},
		} {
			want[step.field] = step.then
			if step.field == "cluster_id" {
				want["cluster_url"] = s.URL + "/v2/organizations/acme/clusters/" + step.then.(string)
			}
			got := ada.Patch(path+"/subject", map[string]any{step.field: step.sent}).Want(http.StatusOK)
			wantEqual(t, fmt.Sprintf("after %s = %v", step.field, step.sent), got.At(""), any(want))
			wantEqual(t, "read after "+step.field, ada.Get(path+"/subject").Want(http.StatusOK).At(""), any(want))
		}
		want["cluster_id"], want["cluster_url"] = nil, nil
		wantEqual(t, "without a cluster", ada.Patch(path+"/subject", map[string]any{"cluster_id": nil}).Want(http.StatusOK).At(""), any(want))
		wantEqual(t, "an empty change", ada.Patch(path+"/subject", nil).Want(http.StatusOK).At(""), any(want))
	})
}

func TestUpdate_RefusesWrongFieldsAndChangesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(path, yaml("Other", nil)).Want(http.StatusCreated)
		before := ada.Get(hello).At("")
		for _, c := range []struct {
			field string
			value any
			text  string
		}{
			{"name", "", "is required"},
			{"name", nil, "is required"},
			{"name", "OTHER", "has already been taken"},
			{"slug", "other", "has already been taken"},
			{"slug", "-x", "must begin with a letter or digit"},
			{"slug", "x.y", "must begin with a letter or digit"},
			{"slug", "", "is required"},
			{"repository", "", "is required"},
			{"cluster_id", "", "must be the UUID of a cluster"},
			{"cluster_id", servertest.RivalClusterID, "must be a cluster of this organization"},
			{"configuration", "", "is required"},
			{"configuration", nil, "is required"},
			{"configuration", "steps: 7", "line 1, column 8"},
			{"visibility", "hidden", "must be one of"},
			{"default_command_step_timeout", 0, "from 1"},
			{"pipeline_template_uuid", core.NewID(), "must be a pipeline template of this organization"},
		} {
			ada.Patch(hello, map[string]any{c.field: c.value, "description": "changed"}).WantFieldError(c.field, c.text)
		}
		wantEqual(t, "after refusals", ada.Get(hello).At(""), before)
	})
}

func TestUpdate_KeepsTheSlugUnlessOneIsGiven(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		wantEqual(t, "slug after a new name", ada.Patch(hello, map[string]any{"name": "Goodbye"}).Want(http.StatusOK).At("slug"), "hello")
		moved := ada.Patch(hello, map[string]any{"slug": "good-bye"}).Want(http.StatusOK)
		wantEqual(t, "url", moved.At("url"), s.URL+path+"/good-bye")
		ada.Get(hello).Want(http.StatusNotFound)
		wantEqual(t, "id", ada.Get(path+"/good-bye").Want(http.StatusOK).At("id"), servertest.AcmePipelineID)
		ada.Patch(path+"/good-bye", map[string]any{"name": "goodbye"}).Want(http.StatusOK)
	})
}

func TestUpdate_OfAYAMLPipeline(t *testing.T) {
	steps := []any{map[string]any{"type": "script", "command": "x"}}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		before := ada.Get(hello).At("")
		for _, env := range []any{map[string]string{"A": "b"}, map[string]any{"A": 1}, "A=b", nil, 7} {
			wantEqual(t, "env is ignored", ada.Patch(hello, map[string]any{"env": env}).Want(http.StatusOK).At(""), before)
		}
		for _, steps := range []any{"none", map[string]any{}, []any{7}, []any{map[string]any{"type": "unknown"}}, nil} {
			ada.Patch(hello, map[string]any{"steps": steps, "env": 7, "configuration": before.(map[string]any)["configuration"]}).Want(http.StatusOK)
		}
		ada.Post(path, yaml("Ignoring", map[string]any{"env": []int{1}, "steps": "none"})).Want(http.StatusCreated)
		ada.Patch(hello, map[string]any{"steps": "none"}).WantFieldError("steps", "must be an array, not a string")
		ada.Patch(hello, map[string]any{"steps": steps}).WantFieldError("steps", "cannot be set on a pipeline whose steps are YAML")
		ada.Patch(hello, map[string]any{"steps": steps, "configuration": ""}).WantFieldError("steps", "cannot be set on a pipeline whose steps are YAML")
		both := ada.Patch(hello, map[string]any{"steps": steps, "configuration": "steps:\n  - command: new\n"}).Want(http.StatusOK)
		wantEqual(t, "configuration", both.At("configuration"), "steps:\n  - command: new\n")
		wantEqual(t, "command", both.At("steps.0.command"), "new")
		wantEqual(t, "number of steps", both.Len("steps"), 1)
	})
}

func TestUpdate_OfAVisualPipeline(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(path, visual("Visual", map[string]any{"env": map[string]string{"A": "b"}})).Want(http.StatusCreated)
		ada.Patch(path+"/visual", map[string]any{"env": map[string]any{"A": 1}}).WantFieldError("env", "has a value that must be a string, not a number")
		ada.Patch(path+"/visual", map[string]any{"steps": "none"}).WantFieldError("steps", "must be an array, not a string")
		got := ada.Patch(path+"/visual", map[string]any{"steps": []any{map[string]any{"type": "waiter"}, map[string]any{"type": "manual", "label": "Go?"}}}).Want(http.StatusOK)
		wantEqual(t, "steps", got.At("steps"), any([]any{map[string]any{"type": "waiter"}, map[string]any{"type": "manual", "label": "Go?"}}))
		wantEqual(t, "env", got.At("env"), any(map[string]any{"A": "b"}))
		got = ada.Patch(path+"/visual", map[string]any{"env": map[string]string{"C": "d"}, "color": "#000000"}).Want(http.StatusOK)
		wantEqual(t, "env", got.At("env"), any(map[string]any{"C": "d"}))
		wantEqual(t, "color", got.At("color"), "#000000")
		wantEqual(t, "env", ada.Patch(path+"/visual", map[string]any{"env": nil}).Want(http.StatusOK).At("env"), any(map[string]any{}))
		ada.Patch(path+"/visual", map[string]any{"env": map[string]string{"C": "d"}}).Want(http.StatusOK)
		ada.Patch(path+"/visual", map[string]any{"steps": []any{map[string]any{"type": "x"}}}).WantFieldError("steps[0].type", "must be one of")

		converted := ada.Patch(path+"/visual", map[string]any{"configuration": "steps: [wait]"}).Want(http.StatusOK)
		wantEqual(t, "configuration", converted.At("configuration"), "steps: [wait]")
		wantEqual(t, "steps", converted.At("steps"), any([]any{map[string]any{"type": "waiter"}}))
		wantEqual(t, "env", converted.At("env"), any(map[string]any{}))
	})
}

func TestUpdate_MergesProviderSettings(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		send := func(settings map[string]any) *servertest.Response {
			return ada.Patch(hello, map[string]any{"provider_settings": settings})
		}
		wantEqual(t, "git", ada.Get(hello).At("provider"), any(map[string]any{
			"id": "git", "webhook_url": ada.Get(hello).At("provider.webhook_url"), "settings": map[string]any{"filter_enabled": false, "filter_condition": ""},
		}))
		ada.Patch(hello, map[string]any{"repository": "https://gitlab.com/acme/hello"}).Want(http.StatusOK)
		onGitLab := func(more map[string]any) any {
			all := map[string]any{
				"filter_enabled": false, "filter_condition": "", "build_branches": true, "build_pull_requests": true, "build_tags": false, "repository": "acme/hello",
				"build_pull_request_forks": false, "prefix_pull_request_fork_branch_names": true, "cancel_deleted_branch_builds": false, "skip_builds_for_existing_commits": false,
				"build_pull_request_base_branch_changed": false, "build_pull_request_labels_changed": false, "build_pull_request_ready_for_review": false,
				"publish_commit_status": true, "publish_commit_status_per_step": false,
			}
			maps.Copy(all, more)
			return all
		}
		wantEqual(t, "gitlab", ada.Get(hello).At("provider.settings"), onGitLab(nil))
		send(map[string]any{"build_tags": true, "filter_condition": "build.branch == 'main'", "unknown": 7, "repository": "ignored"}).Want(http.StatusOK)
		got := send(map[string]any{"filter_enabled": true, "trigger_mode": "none"}).Want(http.StatusOK)
		wantEqual(t, "merged", got.At("provider.settings"), onGitLab(map[string]any{
			"filter_enabled": true, "filter_condition": "build.branch == 'main'", "build_tags": true,
		}))
		wantEqual(t, "null is the default", send(map[string]any{"build_tags": nil}).Want(http.StatusOK).At("provider.settings.build_tags"), false)
		ada.Patch(hello, map[string]any{"repository": "https://github.com/acme/hello"}).Want(http.StatusOK)
		wantEqual(t, "what GitLab did not have", ada.Get(hello).At("provider.settings.trigger_mode"), "code")
		wrong := send(map[string]any{"build_tags": "yes", "filter_condition": true, "trigger_mode": "always"})
		wrong.WantFieldError("provider_settings.build_tags", "must be true or false")
		wrong.WantFieldError("provider_settings.filter_condition", "must be a string")
		wrong.WantFieldError("provider_settings.trigger_mode", "must be one of code, deployment, fork, none")
	})
}

func TestUpdate_OfAnArchivedPipelineIsRefused(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(hello+"/archive", nil).Want(http.StatusOK)
		ada.Patch(hello, map[string]any{"name": "New"}).WantMessage(http.StatusUnprocessableEntity, "This pipeline is archived, so it cannot be changed; unarchive it first")
		ada.Post(hello+"/unarchive", nil).Want(http.StatusOK)
		ada.Patch(hello, map[string]any{"name": "New"}).Want(http.StatusOK)
	})
}

func TestUpdate_LosesNothingWhenManyChangeAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		fields := map[string]any{
			"description": "d", "branch_configuration": "b", "emoji": ":x:", "color": "#123456", "default_branch": "dev",
			"skip_queued_branch_builds": true, "cancel_running_branch_builds": true, "allow_rebuilds": false,
		}
		var all sync.WaitGroup
		for field, value := range fields {
			all.Go(func() { s.As(t, servertest.Ada).Patch(hello, map[string]any{field: value}) })
		}
		all.Wait()
		got := s.As(t, servertest.Ada).Get(hello).Want(http.StatusOK)
		for field, value := range fields {
			wantEqual(t, field, got.At(field), value)
		}
	})
}

func TestCreate_GivesANameOnceWhenManyAskAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		statuses := make([]int, 8)
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() { statuses[i] = s.As(t, servertest.Ada).Post(path, yaml("Wanted", nil)).Status })
		}
		all.Wait()
		created := 0
		for _, status := range statuses {
			switch status {
			case http.StatusCreated:
				created++
			case http.StatusUnprocessableEntity:
			default:
				t.Errorf("status %d", status)
			}
		}
		wantEqual(t, "pipelines created", created, 1)
	})
}
