package interop

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/buildkite/go-buildkite/v4"
)

// pipeline creates another pipeline in acme.
func pipeline(t *testing.T, client *buildkite.Client, name, configuration string) {
	t.Helper()
	call(client.Pipelines.Create(t.Context(), "acme", buildkite.CreatePipeline{
		Name: name, Repository: "https://git.example.test/acme/x.git", ClusterID: clusterID, Configuration: configuration,
	})).created(t)
}

// head describes a build of a branch's newest commit.
func head(branch string) buildkite.CreateBuild {
	return buildkite.CreateBuild{Commit: "HEAD", Branch: branch}
}

// numbersOf returns the numbers of builds.
func numbersOf(builds []buildkite.Build) string {
	var numbers []int
	for _, b := range builds {
		numbers = append(numbers, b.Number)
	}
	return fmt.Sprint(numbers)
}

func TestBuilds_CreateWithEveryField(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		created := call(client.Builds.Create(t.Context(), "acme", "hello", buildkite.CreateBuild{
			Commit: "3a1f0c", Branch: "feature", Message: "Fix it",
			Author:        buildkite.Author{Username: "grace", Name: "Grace", Email: "grace@acme.test"},
			CleanCheckout: true, Env: map[string]string{"A": "1"}, MetaData: map[string]string{"release": "7"}, IgnorePipelineBranchFilters: true,
			PullRequestBaseBranch: "main", PullRequestID: 42, PullRequestRepository: "https://git.example.test/fork/hello.git",
		})).created(t)
		bare := created
		bare.Pipeline = nil // tested with pipelines
		wantEmpty(t, bare, "Blocked", "StartedAt", "FinishedAt", "RebuiltFrom", "TriggeredFrom", "TestEngine", "Pipeline")
		if created.Number != 1 || created.State != "scheduled" || created.Pipeline.Slug != "hello" || created.Source != "api" || created.WebURL != s.url+"/acme/hello/builds/1" {
			t.Errorf("created %+v", created)
		}
		if want := (buildkite.Author{Username: "grace", Name: "Grace", Email: "grace@acme.test"}); created.Author != want {
			t.Errorf("the author is %+v, want %+v", created.Author, want)
		}
		if want := (buildkite.PullRequest{ID: "42", Base: "main", Repository: "https://git.example.test/fork/hello.git"}); *created.PullRequest != want {
			t.Errorf("the pull request is %+v, want %+v", created.PullRequest, want)
		}
		if created.Creator.ID != adaID || created.MetaData["release"] != "7" || created.Env["A"] != "1" {
			t.Errorf("created %+v", created)
		}
		for _, name := range []string{"1", created.ID} {
			if got := call(client.Builds.Get(t.Context(), "acme", "hello", name, nil)).ok(t); !reflect.DeepEqual(got, created) {
				t.Errorf("got %+v, want %+v as created", got, created)
			}
		}
	})
}

func TestBuilds_CreateWithAsLittleAsPossible(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		created := call(client.Builds.Create(t.Context(), "acme", "hello", head("main"))).created(t)
		if created.Author.Name != "Ada" || created.Message != "" || created.PullRequest != nil {
			t.Errorf("created %+v", created)
		}
		call(client.Builds.Create(t.Context(), "acme", "hello", buildkite.CreateBuild{})).refused(t, http.StatusUnprocessableEntity, "Validation Failed: commit is required, branch is required")
		call(client.Builds.Create(t.Context(), "acme", "gone", head("main"))).refused(t, http.StatusNotFound, "No pipeline found")
		call(client.Builds.Get(t.Context(), "acme", "hello", "2", nil)).refused(t, http.StatusNotFound, "No build found")
		call(s.as(t, cy).Builds.Get(t.Context(), "acme", "hello", "1", nil)).refused(t, http.StatusNotFound, "No organization found")
	})
}

func TestBuilds_ListWithFilters(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		for i, branch := range []string{"main", "feature/x", "feature/y", "main"} {
			call(client.Builds.Create(t.Context(), "acme", "hello", buildkite.CreateBuild{
				Commit: strconv.Itoa(i + 1), Branch: branch, MetaData: map[string]string{"even": strconv.FormatBool(i%2 == 1)},
			})).created(t)
		}
		get(client.Builds.Cancel(t.Context(), "acme", "hello", "2")).ok(t)
		lists := map[string]func(*buildkite.BuildsListOptions) answer[[]buildkite.Build]{
			"all": func(o *buildkite.BuildsListOptions) answer[[]buildkite.Build] {
				return call(client.Builds.List(t.Context(), o))
			},
			"by organization": func(o *buildkite.BuildsListOptions) answer[[]buildkite.Build] {
				return call(client.Builds.ListByOrg(t.Context(), "acme", o))
			},
			"by pipeline": func(o *buildkite.BuildsListOptions) answer[[]buildkite.Build] {
				return call(client.Builds.ListByPipeline(t.Context(), "acme", "hello", o))
			},
		}
		for name, list := range lists {
			for _, c := range []struct {
				options buildkite.BuildsListOptions
				want    string
			}{
				{buildkite.BuildsListOptions{}, "[4 3 2 1]"},
				{buildkite.BuildsListOptions{Branch: []string{"main"}}, "[4 1]"},
				{buildkite.BuildsListOptions{Branch: []string{"feature/*", "other"}}, "[3 2]"},
				{buildkite.BuildsListOptions{Commit: "3"}, "[3]"},
				{buildkite.BuildsListOptions{Creator: adaID}, "[4 3 2 1]"},
				{buildkite.BuildsListOptions{Creator: boID}, "[]"},
				{buildkite.BuildsListOptions{State: []string{"canceled", "running"}}, "[2]"},
				{buildkite.BuildsListOptions{State: []string{"finished"}}, "[2]"},
				{buildkite.BuildsListOptions{MetaData: buildkite.MetaDataFilters{MetaData: map[string]string{"even": "true"}}}, "[4 2]"},
				{buildkite.BuildsListOptions{CreatedFrom: time.Now().Add(-time.Hour), CreatedTo: time.Now().Add(time.Hour)}, "[4 3 2 1]"},
				{buildkite.BuildsListOptions{CreatedFrom: time.Now().Add(time.Hour)}, "[]"},
				{buildkite.BuildsListOptions{FinishedFrom: time.Now().Add(-time.Hour)}, "[2]"},
				{buildkite.BuildsListOptions{ListOptions: buildkite.ListOptions{Page: 2, PerPage: 3}}, "[1]"},
			} {
				if got := numbersOf(list(&c.options).ok(t)); got != c.want {
					t.Errorf("%s with %+v: got %s, want %s", name, c.options, got, c.want)
				}
			}
			bare := list(&buildkite.BuildsListOptions{ExcludeJobs: true, ExcludePipeline: true, IncludeRetriedJobs: true}).ok(t)
			if bare[0].Jobs != nil || bare[0].Pipeline != nil {
				t.Errorf("%s: got jobs or a pipeline that were not wanted", name)
			}
			paged := list(&buildkite.BuildsListOptions{ListOptions: buildkite.ListOptions{PerPage: 3}})
			if got := paged.response.NextPage; got != 2 {
				t.Errorf("%s: the next page is %d, want 2", name, got)
			}
			list(&buildkite.BuildsListOptions{State: []string{"x"}}).refused(t, http.StatusBadRequest,
				`"x" is not a state of a build; they are creating, scheduled, running, failing, blocked, canceling, passed, failed, canceled, skipped, not_run, and finished`)
		}
	})
}

func TestBuilds_GetWithOptions(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		call(client.Builds.Create(t.Context(), "acme", "hello", head("main"))).created(t)
		options := &buildkite.BuildGetOptions{IncludeTestEngine: true, JobStates: []string{"passed", "broken"}}
		got := call(client.Builds.Get(t.Context(), "acme", "hello", "1", options)).ok(t)
		if len(got.Jobs) != 0 || got.TestEngine == nil {
			t.Errorf("got %+v", got)
		}
		options = &buildkite.BuildGetOptions{BuildsListOptions: buildkite.BuildsListOptions{ExcludePipeline: true, Branch: []string{"other"}}, JobStates: []string{"scheduled"}}
		got = call(client.Builds.Get(t.Context(), "acme", "hello", "1", options)).ok(t)
		if len(got.Jobs) != 1 || got.Pipeline != nil {
			t.Errorf("got %+v", got)
		}
	})
}

func TestBuilds_CancelAndRebuild(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		first := call(client.Builds.Create(t.Context(), "acme", "hello", buildkite.CreateBuild{Commit: "abc", Branch: "main", Message: "Fix it", Env: map[string]string{"A": "1"}})).created(t)
		canceled := get(client.Builds.Cancel(t.Context(), "acme", "hello", "1")).ok(t)
		if canceled.State != "canceled" || canceled.FinishedAt == nil || canceled.Jobs[0].State != "canceled" {
			t.Errorf("canceled %+v", canceled)
		}
		get(client.Builds.Cancel(t.Context(), "acme", "hello", "1")).refused(t, http.StatusUnprocessableEntity, "Build can't be canceled because it's already finished.")
		rebuilt := get(client.Builds.Rebuild(t.Context(), "acme", "hello", "1")).ok(t)
		if want := (buildkite.RebuiltFrom{ID: first.ID, Number: 1, URL: first.URL}); rebuilt.RebuiltFrom == nil || *rebuilt.RebuiltFrom != want {
			t.Errorf("rebuilt from %+v, want %+v", rebuilt.RebuiltFrom, want)
		}
		if rebuilt.Number != 2 || rebuilt.Commit != "abc" || rebuilt.Message != "Fix it" || rebuilt.Env["A"] != "1" || rebuilt.State != "scheduled" {
			t.Errorf("rebuilt %+v", rebuilt)
		}
	})
}

func TestBuilds_ShowWhereTheyWereTriggered(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		pipeline(t, client, "Parent", "steps: [{trigger: hello, label: Child}]")
		parent := call(client.Builds.Create(t.Context(), "acme", "parent", head("main"))).created(t)
		until(t, "the trigger step has started its build", func() bool {
			parent = call(client.Builds.Get(t.Context(), "acme", "parent", "1", nil)).ok(t)
			return parent.Jobs[0].TriggeredBuild != nil
		})
		child := call(client.Builds.Get(t.Context(), "acme", "hello", "1", nil)).ok(t)
		if want := (buildkite.TriggeredFrom{BuildID: parent.ID, BuildNumber: 1, BuildPipelineSlug: "parent"}); child.TriggeredFrom == nil || *child.TriggeredFrom != want {
			t.Errorf("triggered from %+v, want %+v", child.TriggeredFrom, want)
		}
		if want := (buildkite.TriggeredBuild{ID: child.ID, Number: 1, URL: child.URL, WebURL: child.WebURL}); *parent.Jobs[0].TriggeredBuild != want {
			t.Errorf("the trigger job shows %+v, want %+v", parent.Jobs[0].TriggeredBuild, want)
		}
	})
}
