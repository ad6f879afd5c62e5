package pipelines_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestCreate_ReportsAllProblemsAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		empty := ada.Post(path, `{}`)
		empty.WantFieldError("name", "is required")
		empty.WantFieldError("repository", "is required")
		empty.WantFieldError("configuration", "is required")
		wantEqual(t, "number of errors", empty.Len("errors"), 3)
		ada.Post(path, nil).WantFieldError("configuration", "is required")
	})
}

func TestCreate_RefusesWrongFields(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	cases := []struct {
		field string
		value any
		text  string
	}{
		{"name", "", "is required"},
		{"name", " \t", "is required"},
		{"name", nil, "is required"},
		{"name", 7, "must be a string"},
		{"name", long(256), "at most 255 characters"},
		{"name", "Hello", "has already been taken"},
		{"name", "hELLO", "has already been taken"},
		{"slug", "-x", "must begin with a letter or digit"},
		{"slug", "a_b", "must begin with a letter or digit"},
		{"slug", "a b", "must begin with a letter or digit"},
		{"slug", long(101), "at most 100 characters"},
		{"slug", "hello", "has already been taken"},
		{"repository", "", "is required"},
		{"repository", " ", "is required"},
		{"repository", nil, "is required"},
		{"repository", "--upload-pack=x", "hyphen"},
		{"repository", long(3000), "at most 2048 bytes"},
		{"cluster_id", "nonsense", "must be the UUID of a cluster"},
		{"cluster_id", core.NewID(), "must be a cluster of this organization"},
		{"cluster_id", servertest.RivalClusterID, "must be a cluster of this organization"},
		{"cluster_id", 5, "must be a string"},
		{"description", long(5000), "at most 4096 characters"},
		{"configuration", "", "is required"},
		{"configuration", " \n", "is required"},
		{"configuration", nil, "is required"},
		{"configuration", []string{"x"}, "must be a string"},
		{"branch_configuration", long(3000), "at most 2048 characters"},
		{"default_branch", "two words", "must be the name of a git branch"},
		{"default_branch", "-x", "must be the name of a git branch"},
		{"default_branch", long(300), "at most 255 bytes"},
		{"color", "red", "must be a color in hex"},
		{"emoji", "rocket", "must be an emoji"},
		{"default_command_step_timeout", 0, "from 1"},
		{"default_command_step_timeout", -1, "from 1"},
		{"default_command_step_timeout", 1.5, "must be an integer"},
		{"default_command_step_timeout", "5", "must be an integer"},
		{"maximum_command_step_timeout", 0, "from 1"},
		{"maximum_command_step_timeout", 1 << 40, "from 1"},
		{"allow_rebuilds", "yes", "must be true or false"},
		{"visibility", "secret", "must be one of private, public"},
		{"visibility", "", "must be one of private, public"},
		{"tags", "go", "must be an array"},
		{"tags", slices.Repeat([]string{"x"}, 51), "at most 50"},
		{"pipeline_template_uuid", "nonsense", "must be the UUID of a pipeline template"},
		{"pipeline_template_uuid", core.NewID(), "must be a pipeline template of this organization"},
		{"provider_settings", []string{}, "must be an object"},
		{"teams", "everyone", "must be an array of teams"},
		{"teams", []string{"everyone"}, "is not the UUID of a team"},
		{"teams", []string{core.NewID()}, "must be teams of this organization"},
		{"teams", map[string]string{servertest.AcmeTeamID: "owner"}, "must be one of read_only, build_and_read, manage_build_and_read"},
		{"teams", []any{7}, "each team must be a UUID"},
		{"team_uuids", []string{"everyone"}, "is not the UUID of a team"},
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, c := range cases {
			ada.Post(path, yaml("Refused", map[string]any{c.field: c.value})).WantFieldError(c.field, c.text)
		}
		tags := ada.Post(path, yaml("Refused", map[string]any{"tags": []string{"fine", "", long(256)}}))
		tags.WantFieldError("tags[1]", "is required")
		tags.WantFieldError("tags[2]", "at most 255 characters")
		ada.Post(path, yaml("Refused", map[string]any{"default_command_step_timeout": 61, "maximum_command_step_timeout": 60})).
			WantFieldError("default_command_step_timeout", "at most maximum_command_step_timeout, which is 60")
		wantEqual(t, "pipelines", ada.Get(path).Len(""), 1)
		ada.Post(path, `{"name":`).Want(http.StatusBadRequest)
		ada.Post(path, `[]`).Want(http.StatusBadRequest)
	})
}

func TestCreate_ReportsTheLineAndColumnOfEachMistakeInYAML(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		got := s.As(t, servertest.Ada).Post(path, yaml("Refused", map[string]any{
			"configuration": "steps:\n  - command: make\n    parallelism: many\n  - wiat\n",
		}))
		got.WantFieldError("configuration", "line 3, column 18: ")
		got.WantFieldError("configuration", "line 4, column 5: ")
		wantEqual(t, "number of errors", got.Len("errors"), 2)
	})
}

func TestCreate_DerivesTheSlug(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for name, want := range map[string]string{
			"My   Big Pipeline": "my-big-pipeline",
			"UPPER":             "upper",
			" spaced ":          "spaced",
			":rocket: Launch":   "rocket-launch",
			"Über Pipe":         "uber-pipe",
		} {
			got := ada.Post(path, yaml(name, nil)).Want(http.StatusCreated)
			wantEqual(t, "slug of "+name, got.At("slug"), want)
			wantEqual(t, "name", got.At("name"), strings.TrimSpace(name))
		}
		wantEqual(t, "given slug", ada.Post(path, yaml("Other", map[string]any{"slug": "Chosen-1"})).Want(http.StatusCreated).At("slug"), "chosen-1")
		wantEqual(t, "blank slug", ada.Post(path, yaml("Blank Slug", map[string]any{"slug": ""})).Want(http.StatusCreated).At("slug"), "blank-slug")
		generated := ada.Post(path, yaml("日本", nil)).Want(http.StatusCreated)
		if slug := generated.String("slug"); !regexp.MustCompile(`^pipeline-[0-9a-f]{12}$`).MatchString(slug) {
			t.Errorf("the slug of a name without Latin letters is %q", slug)
		}
		long := strings.Repeat("very ", 25)
		truncated := ada.Post(path, yaml(long+"long", nil)).Want(http.StatusCreated).String("slug")
		wantEqual(t, "truncated slug", truncated, strings.Repeat("very-", 19)+"very")
		wantEqual(t, "truncated slug that is taken", ada.Post(path, yaml(long+"different", nil)).Want(http.StatusCreated).String("slug"), truncated[:98]+"-2")
		wantEqual(t, "the next one", ada.Post(path, yaml(long+"other", nil)).Want(http.StatusCreated).String("slug"), truncated[:98]+"-3")
		ada.Post(path, yaml(long+"other", nil)).WantFieldError("name", "has already been taken")
		ada.Post(path, yaml("My Big! Pipeline", nil)).WantFieldError("slug", "has already been taken")
		twice := ada.Post(path, yaml("UPPER", nil))
		twice.WantFieldError("name", "has already been taken")
		s.As(t, servertest.Cy).Post(rivalPath, without(yaml("UPPER", nil), "cluster_id")).Want(http.StatusCreated)
	})
}

func TestCreate_TakesVisualStepsAndShowsThem(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		got := ada.Post(path, visual("Visual", map[string]any{
			"env":            map[string]string{"A": "b"},
			"color":          "not even checked",
			"emoji":          "nor this",
			"allow_rebuilds": false, "default_command_step_timeout": -5, "maximum_command_step_timeout": 0,
			"tags": []string{"kept"},
			"steps": []any{
				map[string]any{
					"type": "script", "name": "Test", "command": "make test", "artifact_paths": "log/*", "branch_configuration": "main",
					"env": map[string]string{"X": "y"}, "timeout_in_minutes": 5, "agent_query_rules": []string{"queue=big"},
				},
				map[string]any{"type": "waiter"},
				map[string]any{"type": "manual", "label": "Sure?"},
				map[string]any{"type": "trigger", "label": "Deploy", "trigger_project_slug": "hello", "trigger_commit": "HEAD", "trigger_branch": "main", "trigger_async": true},
			},
		})).Want(http.StatusCreated)
		wantEqual(t, "steps", got.At("steps"), any([]any{
			map[string]any{
				"type": "script", "name": "Test", "command": "make test", "artifact_paths": "log/*", "branch_configuration": "main",
				"env": map[string]any{"X": "y"}, "timeout_in_minutes": 5.0, "agent_query_rules": []any{"queue=big"}, "concurrency": nil, "parallelism": nil,
			},
			map[string]any{"type": "waiter"},
			map[string]any{"type": "manual", "label": "Sure?"},
			map[string]any{
				"type": "trigger", "label": "Deploy", "pipeline": "hello", "async": true, "branch_configuration": nil, "concurrency": nil, "parallelism": nil,
				"build": map[string]any{"message": nil, "branch": "main", "commit": "HEAD", "env": map[string]any{}},
			},
		}))
		wantEqual(t, "env", got.At("env"), any(map[string]any{"A": "b"}))
		wantEqual(t, "tags", got.At("tags"), any([]any{"kept"}))
		wantEqual(t, "allow_rebuilds", got.At("allow_rebuilds"), true)
		wantEqual(t, "color", got.At("color"), nil)
		wantEqual(t, "default_command_step_timeout", got.At("default_command_step_timeout"), nil)
		if got.Has("configuration") {
			t.Error("a visual pipeline shows a configuration")
		}
		wantEqual(t, "read", ada.Get(path+"/visual").Want(http.StatusOK).At(""), got.At(""))
		// The response can be sent back.
		ada.Post(path, visual("Copy", map[string]any{"steps": got.At("steps")})).Want(http.StatusCreated)
	})
}

func TestCreate_RefusesWrongVisualSteps(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		send := func(steps any) *servertest.Response {
			return ada.Post(path, visual("Refused", map[string]any{"steps": steps}))
		}
		send([]any{}).WantFieldError("steps", "at least one step")
		send(nil).WantFieldError("configuration", "is required")
		send("x").WantFieldError("steps", "must be an array")
		send([]any{map[string]any{"type": "script", "command": "x"}, map[string]any{"type": "robot"}}).WantFieldError("steps[1].type", "must be one of script")
		ada.Post(path, visual("Refused", map[string]any{"env": map[string]string{"A=B": "c"}})).WantFieldError("env", `cannot contain "="`)
	})
}

func TestCreate_IgnoresStepsAndEnvNextToAConfiguration(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		got := ada.Post(path, yaml("Both", map[string]any{"steps": []any{map[string]any{"type": "robot"}}, "env": map[string]string{"A": "b"}})).Want(http.StatusCreated)
		wantEqual(t, "command", got.At("steps.0.command"), "make")
		wantEqual(t, "env", got.At("env"), any(map[string]any{}))
		blank := ada.Post(path, visual("Blank Beside Steps", map[string]any{"configuration": ""})).Want(http.StatusCreated)
		wantEqual(t, "name of the step", blank.At("steps.0.name"), "Test")
	})
}

func TestCreate_FindsTheClusterThatWasNotNamed(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		create := func(name string, cluster any) *servertest.Response {
			return ada.Post(path, yaml(name, map[string]any{"cluster_id": cluster}))
		}
		wantEqual(t, "default cluster", create("A", "").Want(http.StatusCreated).At("cluster_id"), servertest.AcmeClusterID)
		wantEqual(t, "default cluster", create("B", nil).Want(http.StatusCreated).At("cluster_id"), servertest.AcmeClusterID)
		wantEqual(t, "default cluster", ada.Post(path, without(yaml("C", nil), "cluster_id")).Want(http.StatusCreated).At("cluster_id"), servertest.AcmeClusterID)

		other := ada.Post("/v2/organizations/acme/clusters", map[string]any{"name": "Other"}).Want(http.StatusCreated).String("id")
		ada.Patch("/v2/organizations/acme/pipeline-settings", map[string]any{"default_cluster_id": other}).Want(http.StatusOK)
		wantEqual(t, "cluster of the settings", create("D", "").Want(http.StatusCreated).At("cluster_id"), other)

		s.Apply("organizations:\n  - slug: bare\n    name: Bare\n    members: [{email: ada@acme.test, role: admin, access_tokens: [{description: bare, token: svcua_bare, scopes: ['*']}]}]\n")
		s.As(t, "svcua_bare").Post("/v2/organizations/bare/pipelines", without(yaml("E", nil), "cluster_id")).
			WantFieldError("cluster_id", "is required, because the organization has no default cluster")
	})
}

func TestCreate_TakesTheDefaultBranchOfTheSettings(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Patch("/v2/organizations/acme/pipeline-settings", map[string]any{"default_branch": "trunk"}).Want(http.StatusOK)
		wantEqual(t, "default_branch", ada.Post(path, yaml("A", nil)).Want(http.StatusCreated).At("default_branch"), "trunk")
		wantEqual(t, "given", ada.Post(path, yaml("B", map[string]any{"default_branch": "dev"})).Want(http.StatusCreated).At("default_branch"), "dev")
		wantEqual(t, "older pipeline", ada.Get(hello).Want(http.StatusOK).At("default_branch"), "main")
	})
}

func TestCreate_FollowsTheCloneMirrorRule(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		const mirror = "https://mirror.example.test/acme/app.git"
		with := func(name, url string) map[string]any {
			return yaml(name, map[string]any{"clone_mirror_url": url})
		}
		wantEqual(t, "mirror", ada.Post(path, with("Mirrored", mirror)).Want(http.StatusCreated).At("clone_mirror_url"), mirror)
		wantEqual(t, "no mirror", ada.Get(hello).At("clone_mirror_url"), nil)
		ada.Post(path, with("Refused", "https://user:secret@mirror.example.test/acme/app.git")).WantFieldError("clone_mirror_url", "must have no credentials")
		ada.Post(path, with("Refused", mirror+"?a=b")).WantFieldError("clone_mirror_url", "must have no query and no fragment")

		s.Apply("organizations:\n  - slug: acme\n    features: {clone_mirrors: false}\n")
		wantEqual(t, "mirror set before", ada.Get(path+"/mirrored").At("clone_mirror_url"), mirror)
		if ada.Get(hello).Has("clone_mirror_url") {
			t.Error("clone_mirror_url is not left out where clone mirrors are switched off")
		}
		ada.Post(path, with("Refused", mirror)).WantFieldError("clone_mirror_url", "switched off")
		ada.Patch(hello, map[string]any{"clone_mirror_url": mirror}).WantFieldError("clone_mirror_url", "switched off")
		ada.Post(path, with("Blank", "")).Want(http.StatusCreated)
		ada.Patch(hello, map[string]any{"clone_mirror_url": nil}).Want(http.StatusOK)
		gone := ada.Patch(path+"/mirrored", map[string]any{"clone_mirror_url": ""}).Want(http.StatusOK)
		if gone.Has("clone_mirror_url") {
			t.Error("a mirror is shown after it was removed")
		}
	})
}

func TestCreate_CopiesTheOrganizationsDefaultTimeout(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		settings := func(minutes any) {
			t.Helper()
			ada.Patch("/v2/organizations/acme/pipeline-settings", map[string]any{"default_timeout_in_minutes": minutes}).Want(http.StatusOK)
		}
		ada.Post(path, yaml("Older", nil)).Want(http.StatusCreated)
		settings(20)
		for _, c := range []struct {
			name string
			more map[string]any
			want any
		}{
			{"Silent", nil, 20.0},
			{"Own", map[string]any{"default_command_step_timeout": 5}, 5.0},
			{"None", map[string]any{"default_command_step_timeout": nil}, nil},
			{"Less", map[string]any{"maximum_command_step_timeout": 15}, 15.0},
		} {
			created := ada.Post(path, yaml(c.name, c.more)).Want(http.StatusCreated)
			wantEqual(t, c.name, created.At("default_command_step_timeout"), c.want)
		}
		visual := ada.Post(path, map[string]any{
			"name": "Visual", "repository": "https://git.example.test/acme/visual.git", "cluster_id": servertest.AcmeClusterID,
			"steps": []any{map[string]any{"type": "script", "command": "make"}},
		}).Want(http.StatusCreated)
		wantEqual(t, "a visual pipeline", visual.At("default_command_step_timeout"), 20.0)
		s.Apply("organizations: [{slug: acme, pipelines: [{slug: applied, repository: 'https://git.example.test/acme/applied.git', configuration: 'steps: [{command: make}]'}]}]")
		wantEqual(t, "a pipeline of an organization file", ada.Get(path+"/applied").Want(http.StatusOK).At("default_command_step_timeout"), 20.0)
		// Later changes of the setting affect only later pipelines: the pipeline has its own copy.
		settings(30)
		wantEqual(t, "an older pipeline", ada.Get(path+"/older").At("default_command_step_timeout"), nil)
		wantEqual(t, "one that has its copy", ada.Get(path+"/silent").At("default_command_step_timeout"), 20.0)
		cleared := ada.Patch(path+"/silent", map[string]any{"default_command_step_timeout": nil}).Want(http.StatusOK)
		wantEqual(t, "one that gave up its copy", cleared.At("default_command_step_timeout"), nil)
	})
}
