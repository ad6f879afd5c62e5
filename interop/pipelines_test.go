package interop

import (
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

// deploy returns a pipeline with every field set and YAML steps.
func deploy() buildkite.CreatePipeline {
	return buildkite.CreatePipeline{
		Name:                      "Deploy",
		Repository:                "git@github.com:acme/deploy.git",
		ClusterID:                 clusterID,
		Configuration:             "steps:\n  - command: make deploy\n",
		DefaultBranch:             "trunk",
		DefaultCommandStepTimeout: 10,
		Description:               "Brings it to the people",
		MaximumCommandStepTimeout: 60,
		ProviderSettings: &buildkite.GitHubSettings{
			TriggerMode:                          "deployment",
			BuildPullRequests:                    true,
			PullRequestBranchFilterEnabled:       true,
			PullRequestBranchFilterConfiguration: "release/*",
			BuildTags:                            true,
			PublishCommitStatusPerStep:           true,
			FilterEnabled:                        true,
			FilterCondition:                      `build.branch == "trunk"`,
		},
		BranchConfiguration:             "trunk release/*",
		SkipQueuedBranchBuilds:          true,
		SkipQueuedBranchBuildsFilter:    "!trunk",
		CancelRunningBranchBuilds:       true,
		CancelRunningBranchBuildsFilter: "!release/*",
		Visibility:                      "public",
		Tags:                            []string{"production", "web"},
	}
}

// again returns the request that creates a copy of a pipeline.
func again(p buildkite.Pipeline) buildkite.CreatePipeline {
	create := buildkite.CreatePipeline{
		Name:                            p.Name,
		Repository:                      p.Repository,
		ClusterID:                       p.ClusterID,
		Configuration:                   p.Configuration,
		DefaultBranch:                   p.DefaultBranch,
		DefaultCommandStepTimeout:       p.DefaultCommandStepTimeout,
		Description:                     p.Description,
		MaximumCommandStepTimeout:       p.MaximumCommandStepTimeout,
		ProviderSettings:                p.Provider.Settings,
		BranchConfiguration:             p.BranchConfiguration,
		SkipQueuedBranchBuilds:          p.SkipQueuedBranchBuilds,
		SkipQueuedBranchBuildsFilter:    p.SkipQueuedBranchBuildsFilter,
		CancelRunningBranchBuilds:       p.CancelRunningBranchBuilds,
		CancelRunningBranchBuildsFilter: p.CancelRunningBranchBuildsFilter,
		Visibility:                      p.Visibility,
		Tags:                            p.Tags,
	}
	if p.Configuration == "" {
		create.Steps = p.Steps
	}
	for name, value := range p.Env {
		if create.Env == nil {
			create.Env = make(map[string]string)
		}
		create.Env[name] = value.(string)
	}
	return create
}

func TestPipelines_CreateFromYAMLWithEveryField(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		want := deploy()
		created := call(client.Pipelines.Create(t.Context(), "acme", want)).created(t)
		wantEmpty(t, created, "ArchivedAt",
			"ScheduledBuildsCount", "RunningBuildsCount", "ScheduledJobsCount", "RunningJobsCount", "WaitingJobsCount")

		want.ProviderSettings.(*buildkite.GitHubSettings).Repository = "acme/deploy"
		if got := again(created); !reflect.DeepEqual(got, want) {
			t.Errorf("created %+v, want %+v", got, want)
		}
		if created.Slug != "deploy" || created.Provider.ID != "github" {
			t.Errorf("created with slug %q on provider %q, want deploy on github", created.Slug, created.Provider.ID)
		}
		if got := call(client.Pipelines.Get(t.Context(), "acme", "deploy")).ok(t); !reflect.DeepEqual(got, created) {
			t.Errorf("got %+v, want %+v as created", got, created)
		}
	})
}

func TestPipelines_CreateFromVisualSteps(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		timeout := 15
		want := buildkite.CreatePipeline{
			Name:       "Visual",
			Repository: "https://git.example.test/acme/visual.git",
			ClusterID:  clusterID,
			Steps: []buildkite.Step{
				{
					Type: "script", Name: "Build", Command: "make", ArtifactPaths: "bin/*;logs/*", BranchConfiguration: "main",
					Env: map[string]string{"GOFLAGS": "-mod=mod"}, TimeoutInMinutes: &timeout, AgentQueryRules: []string{"queue=default"},
					Plugins: buildkite.Plugins{"docker#v5": {"image": "golang"}, "cache#v1": nil},
				},
				{Type: "waiter"},
				{Type: "manual", Label: "Release?"},
			},
			Env:           map[string]string{"STAGE": "test"},
			DefaultBranch: "main",
			Visibility:    "private",
		}
		created := call(client.Pipelines.Create(t.Context(), "acme", want)).created(t)
		if got := again(created); !reflect.DeepEqual(got, want) {
			t.Errorf("created %+v, want %+v", got, want)
		}

		steps := append(want.Steps, buildkite.Step{Type: "script", Name: "Release", Command: "make release", Env: map[string]string{}, AgentQueryRules: []string{}})
		updated := call(client.Pipelines.Update(t.Context(), "acme", "visual", buildkite.UpdatePipeline{Steps: steps})).ok(t)
		if !reflect.DeepEqual(updated.Steps, steps) {
			t.Errorf("updated to steps %+v, want %+v", updated.Steps, steps)
		}

		yaml := buildkite.UpdatePipeline{Configuration: "steps:\n  - command: make all\n"}
		converted := call(client.Pipelines.Update(t.Context(), "acme", "visual", yaml)).ok(t)
		if converted.Configuration != yaml.Configuration || len(converted.Steps) != 1 || converted.Steps[0].Command != "make all" {
			t.Errorf("converted to %q with steps %+v", converted.Configuration, converted.Steps)
		}
	})
}

// The client has fewer kinds of steps than YAML, and loose types for their content.
func TestPipelines_StepsOfEveryKindInYAMLAreRead(t *testing.T) {
	const configuration = `
env:
  STAGE: test
steps:
  - label: Test
    command: [make, make test]
    artifact_paths: [bin/*, logs/*]
    env: {CI: true, LEVEL: 3}
    timeout_in_minutes: 5
    agents: {queue: default}
    plugins:
      - docker#v5.0.0: {image: golang}
    matrix: [linux, darwin]
    retry: {automatic: {limit: 2}}
    soft_fail: true
  - wait
  - block: Release?
    fields:
      - {text: Version, key: version}
  - input: Who?
    fields:
      - {select: Who, key: who, options: [{label: Us, value: us}]}
  - trigger: hello
    build: {branch: main}
  - group: Checks
    steps:
      - command: make lint
`
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		create := buildkite.CreatePipeline{Name: "All kinds", Repository: "https://git.example.test/acme/all.git", Configuration: configuration}
		created := call(client.Pipelines.Create(t.Context(), "acme", create)).created(t)
		var types []string
		for _, step := range created.Steps {
			types = append(types, step.Type)
		}
		if want := []string{"script", "waiter", "manual", "manual", "trigger", "script"}; !slices.Equal(types, want) {
			t.Fatalf("steps are of types %q, want %q", types, want)
		}
		test := created.Steps[0]
		if test.Command != "make\nmake test" || test.ArtifactPaths != "bin/*;logs/*" || test.Env["CI"] != "true" || test.Env["LEVEL"] != "3" || *test.TimeoutInMinutes != 5 {
			t.Errorf("the command step is %+v", test)
		}
	})
}

func TestPipelines_ClusterMayBeLeftOut(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		create := deploy()
		create.ClusterID = "" // the client sends it anyway
		if created := call(client.Pipelines.Create(t.Context(), "acme", create)).created(t); created.ClusterID != clusterID {
			t.Errorf("created in cluster %q, want the default one", created.ClusterID)
		}
	})
}

func TestPipelines_ProviderSettingsAreOfTheProvidersType(t *testing.T) {
	tests := []struct {
		repository string
		provider   string
		settings   buildkite.ProviderSettings
	}{
		{"https://github.com/acme/app.git", "github", &buildkite.GitHubSettings{
			TriggerMode: "code", BuildPullRequests: true, BuildBranches: true, SkipPullRequestBuildsForExistingCommits: true,
			PrefixPullRequestForkBranchNames: true, PublishCommitStatus: true, Repository: "acme/app",
		}},
		{"https://github.acme.test/acme/app.git", "github_enterprise", &buildkite.GitHubEnterpriseSettings{
			TriggerMode: "code", BuildPullRequests: true, BuildBranches: true, SkipPullRequestBuildsForExistingCommits: true,
			PublishCommitStatus: true, Repository: "acme/app",
		}},
		{"git@bitbucket.org:acme/app.git", "bitbucket", &buildkite.BitbucketSettings{
			BuildPullRequests: true, BuildBranches: true, SkipPullRequestBuildsForExistingCommits: true,
			PublishCommitStatus: true, Repository: "acme/app",
		}},
		{"https://gitlab.com/acme/app.git", "gitlab", &buildkite.GitLabSettings{Repository: "acme/app"}},
		{"https://gitlab.acme.test/acme/group/app.git", "gitlab_ee", &buildkite.GitLabSettings{Repository: "acme/group/app"}},
		{"https://gitea.acme.test/acme/app.git", "gitea", nil},
		{"https://git.example.test/acme/app.git", "git", nil},
	}
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		for _, test := range tests {
			create := buildkite.CreatePipeline{Name: test.provider, Repository: test.repository, Configuration: "steps: [wait]"}
			created := call(client.Pipelines.Create(t.Context(), "acme", create)).created(t)
			if got := created.Provider; got.ID != test.provider || !reflect.DeepEqual(got.Settings, test.settings) {
				t.Errorf("%s: provider %s with settings %+v, want %s with %+v", test.repository, got.ID, got.Settings, test.provider, test.settings)
			}
			// A client sends back the settings that it has read, changed or not.
			update := buildkite.UpdatePipeline{ProviderSettings: created.Provider.Settings}
			updated := call(client.Pipelines.Update(t.Context(), "acme", created.Slug, update)).ok(t)
			if !reflect.DeepEqual(updated.Provider, created.Provider) {
				t.Errorf("%s: provider %+v after sending its settings back, want %+v", test.repository, updated.Provider, created.Provider)
			}
			listed := call(client.Pipelines.List(t.Context(), "acme", &buildkite.PipelineListOptions{Repository: test.repository})).ok(t)
			if len(listed) != 1 || !reflect.DeepEqual(listed[0], created) {
				t.Errorf("%s: listed %+v, want %+v alone", test.repository, listed, created)
			}
		}
	})
}

func TestPipelines_UpdateChangesWhatIsSent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		want := call(client.Pipelines.Create(t.Context(), "acme", deploy())).created(t)
		update := buildkite.UpdatePipeline{
			Name:                      "Ship",
			Description:               "Brings it to the sea",
			DefaultBranch:             "main",
			DefaultCommandStepTimeout: 20,
			Tags:                      []string{"boats"},
			Visibility:                "private",
			ProviderSettings:          &buildkite.GitHubSettings{TriggerMode: "none", BuildBranches: true},
			// The client always sends these.
			SkipQueuedBranchBuilds:    false,
			CancelRunningBranchBuilds: true,
		}
		want.Name = update.Name
		want.Description = update.Description
		want.DefaultBranch = update.DefaultBranch
		want.DefaultCommandStepTimeout = update.DefaultCommandStepTimeout
		want.Tags = update.Tags
		want.Visibility = update.Visibility
		want.SkipQueuedBranchBuilds = false
		want.Provider.Settings = &buildkite.GitHubSettings{
			TriggerMode: "none", BuildBranches: true, Repository: "acme/deploy",
			// Empty texts are not sent and do not change.
			PullRequestBranchFilterConfiguration: "release/*",
			FilterCondition:                      `build.branch == "trunk"`,
		}
		if got := call(client.Pipelines.Update(t.Context(), "acme", "deploy", update)).ok(t); !reflect.DeepEqual(got, want) {
			t.Errorf("updated to %+v, want %+v", got, want)
		}
		if got := call(client.Pipelines.Get(t.Context(), "acme", "deploy")).ok(t); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestPipelines_ArchivedOnesAreHiddenAndReadOnly(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		do(client.Pipelines.Archive(t.Context(), "acme", "hello")).ok(t)
		if p := call(client.Pipelines.Get(t.Context(), "acme", "hello")).ok(t); p.ArchivedAt == nil {
			t.Error("an archived pipeline does not say since when")
		}
		if list := call(client.Pipelines.List(t.Context(), "acme", nil)).ok(t); len(list) != 0 {
			t.Errorf("listed %d pipelines, want none", len(list))
		}
		do(client.Pipelines.Archive(t.Context(), "acme", "hello")).
			refused(t, http.StatusUnprocessableEntity, "The pipeline could not be archived: it is archived already")

		do(client.Pipelines.Unarchive(t.Context(), "acme", "hello")).ok(t)
		if p := call(client.Pipelines.Get(t.Context(), "acme", "hello")).ok(t); p.ArchivedAt != nil {
			t.Errorf("archived at %v after it was unarchived", p.ArchivedAt)
		}
		if list := call(client.Pipelines.List(t.Context(), "acme", nil)).ok(t); len(list) != 1 {
			t.Errorf("listed %d pipelines, want 1", len(list))
		}
	})
}

func TestPipelines_DeletedOnesReturn404(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		do(client.Pipelines.Delete(t.Context(), "acme", "hello")).ok(t)
		call(client.Pipelines.Get(t.Context(), "acme", "hello")).refused(t, http.StatusNotFound, "No pipeline found")
		do(client.Pipelines.Delete(t.Context(), "acme", "hello")).refused(t, http.StatusNotFound, "No pipeline found")
	})
}

func TestPipelines_PublicOnesAreReadByStrangers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		made := call(s.as(t, ada).Pipelines.Create(t.Context(), "acme", deploy())).created(t)
		want := buildkite.Pipeline{
			ID: made.ID, GraphQLID: made.GraphQLID, URL: made.URL, WebURL: made.WebURL, Name: made.Name, Slug: made.Slug,
			BuildsURL: made.BuildsURL, BadgeURL: made.BadgeURL, Visibility: "public",
		}
		if got := call(s.as(t, cy).Pipelines.Get(t.Context(), "acme", "deploy")).ok(t); !reflect.DeepEqual(got, want) {
			t.Errorf("a stranger got %+v, want %+v", got, want)
		}
		call(s.as(t, cy).Pipelines.Get(t.Context(), "acme", "hello")).refused(t, http.StatusNotFound, "No organization found")
	})
}

func TestPipelines_WebhookNeedsAConnectedSourceHost(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		do(s.as(t, ada).Pipelines.AddWebhook(t.Context(), "acme", "hello")).
			refused(t, http.StatusUnprocessableEntity, "Auto-creating webhooks is not supported for this repository; connect its host to the organization first")
	})
}
