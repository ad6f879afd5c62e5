package buildapi_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
)

// paths are the two of a job of a build of hello.
func paths(number int, id string) []string {
	return []string{acme + "/jobs/" + id, fmt.Sprintf("%s/%d/jobs/%s", hello, number, id)}
}

func TestJob_ShowsEveryFieldOfACommandJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: [make, make test], key: unit, label: ":go: Unit", agents: {queue: default, os: linux}, artifact_paths: [a/*, b], parallelism: 2, priority: 7, timeout_in_minutes: 5}`)
		created := w.Create(nil)
		id, build := created.String("jobs.1.id"), w.URL+hello+"/1"
		cluster := w.URL + acme + "/clusters/" + servertest.AcmeClusterID
		want := map[string]any{
			"id": id, "graphql_id": core.GraphQLID("Job", id), "type": "script", "name": ":go: Unit", "step_key": "unit", "group_key": nil,
			"step":              map[string]any{"id": created.String("jobs.0.step.id"), "signature": nil},
			"priority":          map[string]any{"number": 7.0},
			"agent_query_rules": []any{"queue=default", "os=linux"},
			"state":             "scheduled",
			"build_url":         build, "web_url": w.URL + "/acme/hello/builds/1#" + id,
			"log_url": build + "/jobs/" + id + "/log", "raw_log_url": build + "/jobs/" + id + "/log.txt", "artifacts_url": build + "/jobs/" + id + "/artifacts",
			"command": "make\nmake test", "soft_failed": false, "exit_status": nil, "signal": nil, "signal_reason": nil, "broken_reason": nil, "detail": nil,
			"artifact_paths": "a/*;b",
			"created_at":     w.Now(), "scheduled_at": w.Now(), "runnable_at": w.Now(), "started_at": nil, "finished_at": nil, "expired_at": nil,
			"concurrency_wait_time_ms": nil,
			"retried":                  false, "retried_in_job_id": nil, "retries_count": nil, "retry_source": nil, "retry_source_job_id": nil, "retry_type": nil, "retried_by": nil,
			"parallel_group_index": 1.0, "parallel_group_total": 2.0, "matrix": nil, "agent": nil,
			"cluster_id": servertest.AcmeClusterID, "cluster_url": cluster,
			"cluster_queue_id": servertest.AcmeQueueID, "cluster_queue_url": cluster + "/queues/" + servertest.AcmeQueueID,
		}
		got := []any{created.At("jobs.1"), w.Ada.Get(hello + "/1/jobs").At("items.1"), w.Build(1).At("jobs.1"), w.Ada.Get(acme + "/builds").At("0.jobs.1")}
		for _, path := range paths(1, id) {
			got = append(got, w.Ada.Get(path).Want(http.StatusOK).At(""))
		}
		for _, got := range got {
			if !reflect.DeepEqual(got, any(want)) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

func TestJob_ShowsEveryFieldOfABlockJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{block: "Release?", key: ask, prompt: "All green?", fields: [{select: Where, key: where, hint: "A region", default: eu, options: [{label: Europe, value: eu}]}]}`)
		id := w.Create(nil).String("jobs.0.id")
		want := map[string]any{
			"id": id, "graphql_id": core.GraphQLID("Job", id), "type": "manual", "label": "Release?", "state": "blocked",
			"web_url": w.URL + "/acme/hello/builds/1#" + id, "unblocked_by": nil, "unblocked_at": nil, "unblockable": true,
			"unblock_url": w.URL + hello + "/1/jobs/" + id + "/unblock",
			"step_key":    "ask", "group_key": nil, "step": w.Ada.Get(acme + "/jobs/" + id).At("step"),
			"build_url": w.URL + hello + "/1", "broken_reason": nil, "created_at": w.Now(), "prompt": "All green?",
			"fields": []any{map[string]any{"key": "where", "label": "Where", "hint": "A region", "required": true, "default": []any{"eu"}, "options": []any{"eu"}, "multiple": false}},
		}
		for _, path := range paths(1, id) {
			if got := w.Ada.Get(path).Want(http.StatusOK).At(""); !reflect.DeepEqual(got, any(want)) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		unblocked := w.Ada.Put(want["unblock_url"].(string), nil).Want(http.StatusOK)
		servertest.WantAt(t, unblocked, map[string]any{"state": "unblocked", "unblockable": false, "unblocked_at": w.Now(), "unblocked_by.id": servertest.AdaID, "unblocked_by.name": "Ada", "unblocked_by.email": "ada@acme.test"})
	})
}

func TestJob_ShowsEveryFieldOfAWaitJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("wait", "{command: a}")
		id := w.Create(nil).String("jobs.0.id")
		want := map[string]any{
			"id": id, "graphql_id": core.GraphQLID("Job", id), "type": "waiter", "state": "passed", "step_key": nil, "group_key": nil,
			"web_url": w.URL + "/acme/hello/builds/1#" + id, "build_url": w.URL + hello + "/1", "broken_reason": nil,
			"step": w.Ada.Get(acme + "/jobs/" + id).At("step"), "created_at": w.Now(), "finished_at": w.Now(),
		}
		if got := w.Ada.Get(acme + "/jobs/" + id).Want(http.StatusOK).At(""); !reflect.DeepEqual(got, any(want)) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestJob_IsNotFound(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.Create(nil).String("jobs.0.id")
		w.Create(nil)
		w.AddPipeline("other", nil, "command: x")
		w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		missing := []string{acme + "/jobs/" + core.NewID(), acme + "/jobs/x", acme + "/jobs/1", hello + "/1/jobs/" + core.NewID(), hello + "/1/jobs/x", hello + "/2/jobs/" + job, acme + "/pipelines/other/builds/1/jobs/" + job,
			hello + "/3/jobs/" + job, hello + "/x/jobs/" + job, acme + "/pipelines/gone/builds/1/jobs/" + job}
		for _, path := range missing {
			for _, part := range []string{"", "/env", "/env.txt", "/explain", "/log"} {
				w.Ada.Get(path+part).WantMessage(http.StatusNotFound, "No job found")
			}
			for _, action := range []string{"/retry", "/reprioritize", "/unblock", "/cancel"} {
				w.Ada.Put(path+action, map[string]any{"priority": 1}).WantMessage(http.StatusNotFound, "No job found")
			}
		}
		w.Ada.Get(acme + "/jobs/" + strings.ToUpper(job)).Want(http.StatusOK)
	})
}

func TestJob_ShowsItsSignature(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: a, signature: {value: abc, algorithm: HS256, signed_fields: [command, env]}}`)
		servertest.WantAt(t, w.Create(nil), map[string]any{"jobs.0.step.signature": map[string]any{"value": "abc", "algorithm": "HS256", "signed_fields": []any{"command", "env"}}})
	})
}

func TestJob_ShowsItsMatrix(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			`{command: "echo {{matrix}}", label: "On {{matrix}}", key: plain, matrix: [linux, darwin]}`,
			`{command: "echo {{matrix.os}} {{matrix.arch}}", key: dims, matrix: {setup: {os: [linux], arch: [arm, amd]}}}`,
		)
		servertest.WantAt(t, w.Create(nil), map[string]any{
			"jobs.0.matrix": "linux", "jobs.0.name": "On linux", "jobs.0.command": "echo linux", "jobs.1.matrix": "darwin", "jobs.1.command": "echo darwin",
			"jobs.2.matrix": map[string]any{"os": "linux", "arch": "arm"}, "jobs.3.command": "echo linux amd",
			"jobs.0.parallel_group_index": nil, "jobs.0.parallel_group_total": nil,
		})
		first := w.Build(1).String("jobs.0.id")
		w.Start(first)
		w.End(first, 1)
		retried := w.Ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK)
		servertest.WantAt(t, retried, map[string]any{"matrix": "linux", "name": "On linux", "command": "echo linux"})
	})
}

func TestEnv_IsJSONOrText(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, `
env: {FROM_PIPELINE: p, SHARED: pipeline, SHARED2: pipeline}
steps:
  - {command: make, key: unit, label: Unit, env: {FROM_STEP: s, SHARED: step, SERVICE_BRANCH: mine}, parallelism: 2}
  - {block: Go}
`)
		created := w.Create(map[string]any{"message": "One\nTwo", "env": map[string]any{"FROM_BUILD": "b", "SHARED": "build", "SHARED2": "build", "EMPTY": ""}})
		id := created.String("jobs.0.id")
		want := map[string]any{
			"env.FROM_PIPELINE": "p", "env.FROM_BUILD": "b", "env.FROM_STEP": "s", "env.SHARED": "step", "env.SHARED2": "build", "env.EMPTY": "",
			"env.CI": "true", "env.SERVICE": "true", "env.SERVICE_BRANCH": "main", "env.SERVICE_COMMIT": "HEAD", "env.SERVICE_MESSAGE": "One\nTwo", "env.SERVICE_SOURCE": "api",
			"env.SERVICE_ORGANIZATION_SLUG": "acme", "env.SERVICE_PIPELINE_SLUG": "hello", "env.SERVICE_PIPELINE_ID": servertest.AcmePipelineID,
			"env.SERVICE_REPO": "https://git.example.test/acme/hello.git", "env.SERVICE_BUILD_ID": created.String("id"), "env.SERVICE_BUILD_NUMBER": "1",
			"env.SERVICE_BUILD_URL": w.URL + "/acme/hello/builds/1", "env.SERVICE_JOB_ID": id, "env.SERVICE_LABEL": "Unit", "env.SERVICE_COMMAND": "make", "env.SERVICE_STEP_KEY": "unit",
			"env.SERVICE_PARALLEL_JOB": "0", "env.SERVICE_PARALLEL_JOB_COUNT": "2", "env.SERVICE_PULL_REQUEST": "false", "env.SERVICE_RETRY_COUNT": "0",
			"env.SERVICE_BUILD_CREATOR": "Ada", "env.SERVICE_BUILD_CREATOR_EMAIL": "ada@acme.test", "env.SERVICE_BUILD_AUTHOR": "Ada",
		}
		for _, path := range paths(1, id) {
			response := w.Ada.Get(path + "/env").Want(http.StatusOK)
			servertest.WantAt(t, response, want)
			if strings.Contains(string(response.Body), "BUILDKITE") {
				t.Errorf("REST shows the names that only agents get: %s", response.Body)
			}
			for _, text := range []*servertest.Response{w.Ada.With("Accept", "text/plain").Get(path + "/env"), w.Ada.Get(path + "/env.txt")} {
				text.Want(http.StatusOK)
				if kind := text.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
					t.Errorf("the text has the type %q", kind)
				}
				lines := strings.Split(string(text.Body), "\n")
				for _, line := range []string{"FROM_STEP=s", "SHARED=step", "SERVICE_BRANCH=main", "EMPTY=", "SERVICE_BUILD_NUMBER=1"} {
					if !strings.Contains("\n"+strings.Join(lines, "\n")+"\n", "\n"+line+"\n") {
						t.Errorf("no line %q in %s", line, text.Body)
					}
				}
			}
			servertest.WantEqual(t, "type", w.Ada.With("Accept", "application/json").Get(path+"/env").Header.Get("Content-Type"), response.Header.Get("Content-Type"))
		}
		w.Ada.Get(acme + "/jobs/" + created.String("jobs.2.id") + "/env").Want(http.StatusOK)
	})
}

func TestEnv_ReportsPullRequestsAndMirrors(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"clone_mirror_url": "https://mirror.example.test/hello.git"}).Want(http.StatusOK)
		created := w.Create(map[string]any{"pull_request_id": 7, "pull_request_base_branch": "main", "pull_request_repository": "https://git.example.test/fork.git", "pull_request_labels": []string{"a", "b"}})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+created.String("jobs.0.id")+"/env"), map[string]any{
			"env.SERVICE_PULL_REQUEST": "7", "env.SERVICE_PULL_REQUEST_BASE_BRANCH": "main", "env.SERVICE_PULL_REQUEST_REPO": "https://git.example.test/fork.git",
			"env.SERVICE_PULL_REQUEST_LABELS": "a,b", "env.SERVICE_GIT_REMOTE_MIRROR_URL": "https://mirror.example.test/hello.git",
		})
	})
}
