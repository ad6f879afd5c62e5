package interop

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

// pages reads all pages of a list by following the next links.
func pages[T any](t *testing.T, list func(options buildkite.ListOptions) ([]T, *buildkite.Response, error)) (all [][]T) {
	t.Helper()
	const size = 2
	for options := (buildkite.ListOptions{PerPage: size}); ; {
		page, response, err := list(options)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page)
		if response.NextPage == 0 {
			return all
		}
		if len(page) != size {
			t.Errorf("page %d has %d items and is not the last, want %d", options.Page, len(page), size)
		}
		options.Page = response.NextPage
	}
}

func TestLists_ArePagedToTheirEnd(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		lists := []struct {
			name string
			make func(name string) error
			list func(options buildkite.ListOptions) ([]string, *buildkite.Response, error)
		}{
			{
				"pipelines",
				func(name string) error {
					_, _, err := client.Pipelines.Create(ctx, "acme", buildkite.CreatePipeline{Name: name, Repository: "r", Configuration: "steps: [wait]"})
					return err
				},
				func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
					list, response, err := client.Pipelines.List(ctx, "acme", &buildkite.PipelineListOptions{ListOptions: options})
					return names(list, func(p buildkite.Pipeline) string { return p.Name }), response, err
				},
			},
			{
				"pipeline templates",
				func(name string) error {
					_, _, err := client.PipelineTemplates.Create(ctx, "acme", buildkite.PipelineTemplateCreateUpdate{Name: name, Configuration: "steps: [wait]"})
					return err
				},
				func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
					list, response, err := client.PipelineTemplates.List(ctx, "acme", &buildkite.PipelineTemplateListOptions{ListOptions: options})
					return names(list, func(p buildkite.PipelineTemplate) string { return p.Name }), response, err
				},
			},
			{
				"clusters",
				func(name string) error {
					_, _, err := client.Clusters.Create(ctx, "acme", buildkite.ClusterCreate{Name: name})
					return err
				},
				func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
					list, response, err := client.Clusters.List(ctx, "acme", &buildkite.ClustersListOptions{ListOptions: options})
					return names(list, func(c buildkite.Cluster) string { return c.Name }), response, err
				},
			},
			{
				"queues",
				func(name string) error {
					_, _, err := client.ClusterQueues.Create(ctx, "acme", clusterID, buildkite.ClusterQueueCreate{Key: name})
					return err
				},
				func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
					list, response, err := client.ClusterQueues.List(ctx, "acme", clusterID, &buildkite.ClusterQueuesListOptions{ListOptions: options})
					return names(list, func(q buildkite.ClusterQueue) string { return q.Key }), response, err
				},
			},
			{
				"agent tokens",
				func(name string) error {
					_, _, err := client.ClusterTokens.Create(ctx, "acme", clusterID, buildkite.ClusterTokenCreateUpdate{Description: name})
					return err
				},
				func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
					list, response, err := client.ClusterTokens.List(ctx, "acme", clusterID, &buildkite.ClusterTokensListOptions{ListOptions: options})
					return names(list, func(token buildkite.ClusterToken) string { return token.Description }), response, err
				},
			},
			{
				"secrets",
				func(name string) error {
					_, _, err := client.ClusterSecrets.Create(ctx, "acme", clusterID, buildkite.ClusterSecretCreate{Key: name, Value: "value"})
					return err
				},
				func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
					list, response, err := client.ClusterSecrets.List(ctx, "acme", clusterID, &buildkite.ClusterSecretsListOptions{ListOptions: options})
					return names(list, func(secret buildkite.ClusterSecret) string { return secret.Key }), response, err
				},
			},
			{
				"teams",
				func(name string) error {
					_, _, err := client.Teams.CreateTeam(ctx, "acme", buildkite.CreateTeam{Name: name})
					return err
				},
				func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
					list, response, err := client.Teams.List(ctx, "acme", &buildkite.TeamsListOptions{ListOptions: options})
					return names(list, func(team buildkite.Team) string { return team.Name }), response, err
				},
			},
		}
		for _, test := range lists {
			first, _, err := test.list(buildkite.ListOptions{})
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			want := first
			for i := range 4 {
				name := fmt.Sprintf("item%d", i)
				if err := test.make(name); err != nil {
					t.Fatalf("%s: %v", test.name, err)
				}
				want = append(want, name)
			}
			got := slices.Concat(pages(t, test.list)...)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: paged through %q, want %q", test.name, got, want)
			}
		}
	})
}

func names[T any](list []T, name func(T) string) []string {
	all := make([]string, len(list))
	for i, item := range list {
		all[i] = name(item)
	}
	return all
}

func TestLists_LeadToNeighborsAndEnds(t *testing.T) {
	type links struct{ next, prev, first, last int }
	tests := []struct {
		page int
		want links
	}{
		{1, links{next: 2, last: 3}},
		{2, links{next: 3, prev: 1, first: 1, last: 3}},
		{3, links{prev: 2, first: 1}},
		{4, links{prev: 3, first: 1}}, // an empty page with a link back
	}
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		for _, key := range []string{"b", "c", "d", "e"} {
			call(client.ClusterQueues.Create(t.Context(), "acme", clusterID, buildkite.ClusterQueueCreate{Key: key})).created(t)
		}
		for _, test := range tests {
			options := &buildkite.ClusterQueuesListOptions{ListOptions: buildkite.ListOptions{Page: test.page, PerPage: 2}}
			_, response, err := client.ClusterQueues.List(t.Context(), "acme", clusterID, options)
			if err != nil {
				t.Fatal(err)
			}
			if got := (links{response.NextPage, response.PrevPage, response.FirstPage, response.LastPage}); got != test.want {
				t.Errorf("page %d leads to %+v, want %+v", test.page, got, test.want)
			}
		}
	})
}

func TestPipelines_ListFilters(t *testing.T) {
	repositories := map[string]string{
		"Web":      "https://github.com/acme/web.git",
		"Web docs": "git@github.com:acme/docs.git",
		"Engine":   "https://git.example.test/acme/engine, the big one.git",
	}
	tests := []struct {
		options buildkite.PipelineListOptions
		want    []string
	}{
		{buildkite.PipelineListOptions{}, []string{"Engine", "Hello", "Web", "Web docs"}},
		{buildkite.PipelineListOptions{Name: "web"}, []string{"Web", "Web docs"}},
		{buildkite.PipelineListOptions{Name: "nothing"}, []string{}},
		{buildkite.PipelineListOptions{Repository: "github.com"}, []string{"Web", "Web docs"}},
		{buildkite.PipelineListOptions{Repository: "git@github.com:acme/docs"}, []string{"Web docs"}},
		{buildkite.PipelineListOptions{Repository: "https://GITHUB.com/acme/web.git"}, []string{"Web"}},
		{buildkite.PipelineListOptions{Repository: "https://github.com/acme/docs"}, []string{"Web docs"}}, // the same repository
		{buildkite.PipelineListOptions{Repository: "engine, the big"}, []string{"Engine"}},
		{buildkite.PipelineListOptions{Name: "web", Repository: "docs"}, []string{"Web docs"}},
	}
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		for name, repository := range repositories {
			create := buildkite.CreatePipeline{Name: name, Repository: repository, Configuration: "steps: [wait]"}
			call(client.Pipelines.Create(t.Context(), "acme", create)).created(t)
		}
		for _, test := range tests {
			list := call(client.Pipelines.List(t.Context(), "acme", &test.options)).ok(t)
			if got := names(list, func(p buildkite.Pipeline) string { return p.Name }); !slices.Equal(got, test.want) {
				t.Errorf("%+v: listed %q, want %q", test.options, got, test.want)
			}
		}
	})
}

// Links repeat the filters, including characters that separate Link headers.
func TestPipelines_FilteredListIsPaged(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		for i := range 3 {
			create := buildkite.CreatePipeline{Name: fmt.Sprintf("Salt, pepper; and %d", i), Repository: "r", Configuration: "steps: [wait]"}
			call(client.Pipelines.Create(t.Context(), "acme", create)).created(t)
		}
		got := pages(t, func(options buildkite.ListOptions) ([]string, *buildkite.Response, error) {
			list, response, err := client.Pipelines.List(t.Context(), "acme", &buildkite.PipelineListOptions{Name: "salt, pepper;", ListOptions: options})
			return names(list, func(p buildkite.Pipeline) string { return p.Name }), response, err
		})
		want := [][]string{{"Salt, pepper; and 0", "Salt, pepper; and 1"}, {"Salt, pepper; and 2"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("paged through %q, want %q", got, want)
		}
	})
}
