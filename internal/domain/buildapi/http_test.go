package buildapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
)

func TestCreate_MakesABuildWithItsJobs(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		created := buildstest.Create(s, t, map[string]any{
			"message":   "Fix it",
			"env":       map[string]any{"A": "1"},
			"meta_data": map[string]any{"release": 7, "ready": true},
			"author":    map[string]any{},
		})
		for path, want := range map[string]string{
			"number": "1", "state": "scheduled", "blocked": "false", "message": "Fix it", "commit": "HEAD", "branch": "main",
			"source": "api", "env.A": "1", "meta_data.release": "7", "meta_data.ready": "true",
			"creator.email": "ada@acme.test", "author.name": "Ada", "author.email": "ada@acme.test",
			"url":           s.URL + hello + "/1",
			"web_url":       s.URL + "/acme/hello/builds/1",
			"pipeline.slug": "hello",
			"jobs.0.type":   "script", "jobs.0.state": "scheduled", "jobs.0.command": "echo hello",
			"jobs.0.cluster_queue_id": servertest.AcmeQueueID,
		} {
			if got := created.String(path); got != want {
				t.Errorf("%s is %q, want %q", path, got, want)
			}
		}
		got := s.As(t, servertest.Ada).Get(hello + "/1").Want(http.StatusOK)
		if got.String("id") != created.String("id") || got.String("job_state_counts.states.scheduled") != "1" {
			t.Errorf("got %s", got.Body)
		}
		s.As(t, servertest.Ada).Get(hello + "/" + created.String("id")).Want(http.StatusOK)
		pipeline := s.As(t, servertest.Ada).Get("/v2/organizations/acme/pipelines/hello")
		if pipeline.String("scheduled_builds_count") != "1" || pipeline.String("scheduled_jobs_count") != "1" {
			t.Errorf("got %s", pipeline.Body)
		}
	})
}

func TestJobs_ListsWaitersBlocksAndGroups(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		buildstest.Configure(s, t, strings.TrimSpace(`
steps:
  - {command: one, key: first, label: First}
  - wait
  - {block: "Go on?", key: ask}
  - group: Many
    key: many
    steps:
      - {command: many, key: parallel, parallelism: 3}
`))
		buildstest.Create(s, t, nil)
		jobs := s.As(t, servertest.Ada).Get(hello + "/1/jobs").Want(http.StatusOK)
		var got []string
		for i := range jobs.Len("items") {
			got = append(got, jobs.String(fmt.Sprintf("items.%d.type", i))+" "+jobs.String(fmt.Sprintf("items.%d.state", i)))
		}
		want := "script scheduled, waiter waiting, manual waiting, script waiting, script waiting, script waiting"
		if strings.Join(got, ", ") != want {
			t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
		}
	})
}
