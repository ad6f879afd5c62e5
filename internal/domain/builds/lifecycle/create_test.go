package lifecycle_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
)

func TestCreate_TakesEveryField(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		created := w.Create(map[string]any{
			"commit":                         " 3a1f0c ",
			"branch":                         "feature/x",
			"message":                        "Fix it",
			"author":                         map[string]any{"username": "grace", "name": "Grace", "email": "grace@acme.test"},
			"clean_checkout":                 true,
			"env":                            map[string]any{"TEXT": "a b", "NUMBER": 7, "FLAG": true, "NOTHING": nil},
			"meta_data":                      map[string]any{"text": "x", "number": 1.5, "flag": false, "list": []any{"a", 2}, "nothing": nil},
			"ignore_pipeline_branch_filters": true,
			"pull_request_base_branch":       "main",
			"pull_request_id":                42,
			"pull_request_labels":            []string{"bug", "urgent"},
			"pull_request_repository":        "https://git.example.test/fork/hello.git",
			"unknown":                        "is ignored",
		})
		for _, r := range []*servertest.Response{created, w.Build(1)} {
			for path, want := range map[string]any{
				"commit":       "3a1f0c",
				"branch":       "feature/x",
				"message":      "Fix it",
				"author":       map[string]any{"username": "grace", "name": "Grace", "email": "grace@acme.test"},
				"env":          map[string]any{"TEXT": "a b", "NUMBER": "7", "FLAG": "true", "NOTHING": ""},
				"meta_data":    map[string]any{"text": "x", "number": "1.5", "flag": "false", "list": "a\n2", "nothing": ""},
				"pull_request": map[string]any{"id": "42", "base": "main", "repository": "https://git.example.test/fork/hello.git", "labels": []any{"bug", "urgent"}},
			} {
				if got := r.At(path); !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v", path, got, want)
				}
			}
		}
		env := w.Ada.Get(acme + "/jobs/" + created.String("jobs.0.id") + "/env").Want(http.StatusOK)
		servertest.WantEqual(t, "clean checkout", env.String("env.SERVICE_CLEAN_CHECKOUT"), "true")
	})
}

func TestCreate_AnswersWithEveryFieldOfABuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		created := w.Create(nil)
		id := created.String("id")
		at := created.At("").(map[string]any)
		jobs := at["jobs"]
		user := map[string]any{
			"id": servertest.AdaID, "graphql_id": core.GraphQLID("User", servertest.AdaID), "name": "Ada", "email": "ada@acme.test",
			"avatar_url": created.At("creator.avatar_url"), "created_at": created.At("creator.created_at"),
		}
		want := map[string]any{
			"id": id, "graphql_id": core.GraphQLID("Build", id),
			"url": w.URL + hello + "/1", "web_url": w.URL + "/acme/hello/builds/1",
			"number": 1.0, "state": "scheduled", "blocked": false, "cancel_reason": nil, "message": nil,
			"commit": "HEAD", "branch": "main", "tag": nil, "env": map[string]any{}, "source": "api",
			"author": map[string]any{"username": "", "name": "Ada", "email": "ada@acme.test"}, "creator": user,
			"created_at": w.Now(), "scheduled_at": w.Now(), "started_at": nil, "failing_at": nil, "finished_at": nil,
			"meta_data": map[string]any{}, "pull_request": nil, "merge_queue": nil, "rebuilt_from": nil, "triggered_from": nil,
		}
		want["pipeline"], want["jobs"] = w.Ada.Get(acme+"/pipelines/hello").At(""), jobs
		if !reflect.DeepEqual(at, want) {
			t.Errorf("created %v, want %v", at, want)
		}
		if _, ok := core.ParseID(id); !ok || id != strings.ToLower(id) {
			t.Errorf("the id %q is not a UUID in lower case", id)
		}
		for _, path := range []string{"/v2/builds", acme + "/builds", hello} {
			if got := w.Ada.Get(path).Want(http.StatusOK).At("0"); !reflect.DeepEqual(got, any(want)) {
				t.Errorf("%s: got %v, want %v", path, got, want)
			}
		}
		want["job_state_counts"] = map[string]any{"total": 1.0, "states": map[string]any{"scheduled": 1.0}}
		if got := w.Build(1).At(""); !reflect.DeepEqual(got, any(want)) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestCreate_RefusesWhatItCannotBuild(t *testing.T) {
	long := strings.Repeat("x", 256)
	cases := []struct{ body, field, problem string }{
		{`{"branch": "main"}`, "commit", "is required"},
		{`{"commit": "HEAD"}`, "branch", "is required"},
		{`{"commit": " ", "branch": "main"}`, "commit", "is required"},
		{`{"commit": "HEAD", "branch": ""}`, "branch", "is required"},
		{`{"commit": null, "branch": "main"}`, "commit", "is required"},
		{`{"commit": 7, "branch": "main"}`, "commit", "must be"},
		{`{"commit": "` + long + `", "branch": "main"}`, "commit", "at most 255"},
		{`{"commit": "HEAD", "branch": "` + long + `"}`, "branch", "at most 255"},
		{`{"commit": "HEAD", "branch": "main", "message": {}}`, "message", "must be"},
		{`{"commit": "HEAD", "branch": "main", "author": "grace"}`, "author", "must be"},
		{`{"commit": "HEAD", "branch": "main", "author": {"name": 1}}`, "author.name", "must be"},
		{`{"commit": "HEAD", "branch": "main", "author": {"email": "` + long + `"}}`, "author.email", "at most 255"},
		{`{"commit": "HEAD", "branch": "main", "clean_checkout": "yes"}`, "clean_checkout", "must be"},
		{`{"commit": "HEAD", "branch": "main", "ignore_pipeline_branch_filters": 1}`, "ignore_pipeline_branch_filters", "must be"},
		{`{"commit": "HEAD", "branch": "main", "env": ["A=1"]}`, "env", "must be"},
		{`{"commit": "HEAD", "branch": "main", "env": {"A": {"b": 1}}}`, "env", "must be"},
		{`{"commit": "HEAD", "branch": "main", "env": {"": "1"}}`, "env", "cannot be empty"},
		{`{"commit": "HEAD", "branch": "main", "env": {"A=B": "1"}}`, "env", `or contain "="`},
		{`{"commit": "HEAD", "branch": "main", "meta_data": "x"}`, "meta_data", "must be"},
		{`{"commit": "HEAD", "branch": "main", "meta_data": {"a": [["b"]]}}`, "meta_data", "must be"},
		{`{"commit": "HEAD", "branch": "main", "meta_data": {"": "1"}}`, "meta_data", "must have keys"},
		{`{"commit": "HEAD", "branch": "main", "meta_data": {"` + long + `": "1"}}`, "meta_data", "must have keys"},
		{`{"commit": "HEAD", "branch": "main", "meta_data": {"a": "` + strings.Repeat("x", 100_001) + `"}}`, "meta_data", "100000"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_id": 1.5}`, "pull_request_id", "integer"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_id": "x"}`, "pull_request_id", "integer"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_id": -1}`, "pull_request_id", "integer"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_id": [1]}`, "pull_request_id", "integer"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_labels": "bug"}`, "pull_request_labels", "must be"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_id": 1, "pull_request_base_branch": "` + long + `"}`, "pull_request_base_branch", "at most 255"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_labels": ["` + long + `"]}`, "pull_request_labels", "at most 255"},
		{`{"commit": "HEAD", "branch": "main", "pull_request_labels": ["` + strings.Repeat(`x", "`, 100) + `"]}`, "pull_request_labels", "at most 100"},
	}
	each(t, func(t *testing.T, w *world) {
		for _, c := range cases {
			w.Ada.Post(hello, c.body).WantFieldError(c.field, c.problem)
		}
		w.Ada.Post(hello, `{}`).WantFieldError("commit", "is required").WantFieldError("branch", "is required")
		w.Ada.Post(hello, nil).WantFieldError("commit", "is required")
		w.Ada.Post(hello, `{"commit": "HEAD"`).Want(http.StatusBadRequest)
		w.Ada.Post(hello, `["HEAD"]`).Want(http.StatusBadRequest)
		w.Ada.Post(acme+"/pipelines/gone/builds", map[string]any{}).WantMessage(http.StatusNotFound, "No pipeline found")
		servertest.WantEqual(t, "builds", w.Ada.Get(hello).Want(http.StatusOK).Len(""), 0)
		servertest.WantEqual(t, "the first number", w.Create(nil).String("number"), "1")
	})
}

func TestCreate_FillsInWhoTheAuthorIs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, c := range []struct{ sent, want any }{
			{nil, map[string]any{"username": "", "name": "Ada", "email": "ada@acme.test"}},
			{map[string]any{}, map[string]any{"username": "", "name": "Ada", "email": "ada@acme.test"}},
			{map[string]any{"name": "", "email": ""}, map[string]any{"username": "", "name": "Ada", "email": "ada@acme.test"}},
			{map[string]any{"email": "grace@acme.test"}, map[string]any{"username": "", "name": "", "email": "grace@acme.test"}},
			{map[string]any{"username": "grace"}, map[string]any{"username": "grace", "name": "", "email": ""}},
		} {
			if got := w.Create(map[string]any{"author": c.sent}).At("author"); !reflect.DeepEqual(got, c.want) {
				t.Errorf("author %v became %v, want %v", c.sent, got, c.want)
			}
		}
	})
}

func TestCreate_TakesPullRequestNumbersAsText(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		servertest.WantEqual(t, "id", w.Create(map[string]any{"pull_request_id": "7"}).String("pull_request.id"), "7")
		for _, none := range []any{nil, ""} {
			if got := w.Create(map[string]any{"pull_request_id": none}).At("pull_request"); got != nil {
				t.Errorf("pull_request is %v for the id %v, want null", got, none)
			}
		}
	})
}

func TestCreate_KeepsToThePipelinesBranches(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: all, key: all}", "{command: main, key: main, branches: main}")
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"branch_configuration": "main release/*"}).Want(http.StatusOK)
		refused := w.Ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "feature"}).Want(http.StatusUnprocessableEntity)
		if !strings.Contains(refused.String("message"), `"feature"`) {
			t.Errorf("the message does not name the branch: %s", refused.Body)
		}
		w.Create(map[string]any{"branch": "release/1"})
		w.WantStates(1, "scheduled", "all scheduled, main broken")
		// Asked to ignore the pipeline's filter it builds, but steps still have theirs.
		w.Create(map[string]any{"branch": "feature", "ignore_pipeline_branch_filters": true})
		w.WantStates(2, "scheduled", "all scheduled, main broken")
		servertest.WantEqual(t, "broken_reason", w.Ada.Get(acme+"/jobs/"+w.Job(2, "main")).String("broken_reason"), "branch_mismatch")
		// The filter is not for pull requests.
		w.Create(map[string]any{"branch": "feature", "pull_request_id": 1})
		w.Create(nil)
		w.WantStates(4, "scheduled", "all scheduled, main scheduled")
	})
}

func TestCreate_RefusesAnArchivedPipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		w.Ada.Post(acme+"/pipelines/hello/archive", nil).Want(http.StatusOK)
		for _, refused := range []*servertest.Response{
			w.Ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}),
			w.Ada.Put(hello+"/1/rebuild", nil),
		} {
			if message := refused.Want(http.StatusUnprocessableEntity).String("message"); !strings.Contains(message, "archived") {
				t.Errorf("the message does not say that it is archived: %s", message)
			}
		}
		w.Build(1)
		w.Ada.Post(acme+"/pipelines/hello/unarchive", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "number", w.Create(nil).String("number"), "2")
	})
}

func TestCreate_RefusesAQueueThatTheClusterDoesNotHave(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, agents: {queue: gpu}}")
		w.Ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).
			WantMessage(http.StatusUnprocessableEntity, `The cluster has no queue with the key "gpu"; its queues are: default`)
		w.Steps("{command: a, agents: {queue: default, os: linux}}", `{command: b, agents: {queue: "*"}}`)
		created := w.Create(nil)
		servertest.WantAt(t, created, map[string]any{
			"number":                   1, // the refused build took none
			"jobs.0.cluster_queue_id":  servertest.AcmeQueueID,
			"jobs.0.agent_query_rules": []any{"queue=default", "os=linux"},
			"jobs.1.cluster_queue_id":  servertest.AcmeQueueID,
		})
	})
}

func TestCreate_TakesTheOrganizationsClusterWhenThePipelineHasNone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"cluster_id": nil}).Want(http.StatusOK)
		servertest.WantEqual(t, "cluster", w.Create(nil).String("jobs.0.cluster_id"), servertest.AcmeClusterID)
		other := w.Ada.Post(acme+"/clusters", map[string]any{"name": "Other"}).Want(http.StatusCreated).String("id")
		w.Ada.Patch(acme+"/pipeline-settings", map[string]any{"default_cluster_id": other}).Want(http.StatusOK)
		created := w.Create(nil)
		servertest.WantAt(t, created, map[string]any{"jobs.0.cluster_id": other, "jobs.0.cluster_queue_id": nil, "jobs.0.cluster_queue_url": nil})
	})
}

func TestCreate_EndsABuildOfWhichNothingRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, skip: true}", "wait", "{command: b, key: b, skip: not today}", "{command: c, key: c, parallelism: 0}", "{command: d, key: d, branches: other}")
		created := w.Create(nil)
		servertest.WantAt(t, created, map[string]any{
			"state": "not_run", "finished_at": w.Now(), "started_at": nil,
			"jobs.2.broken_reason": "not today", "jobs.3.broken_reason": "parallelism_zero", "jobs.4.broken_reason": "branch_mismatch",
			"jobs.3.parallel_group_index": nil,
		})
		w.WantStates(1, "not_run", "a broken, waiter passed, b broken, c broken, d broken")
	})
}

func TestCreate_NumbersBuildsWithoutGaps(t *testing.T) {
	const count = 500
	each(t, func(t *testing.T, w *world) {
		numbers := make([]int, count)
		next := make(chan int)
		var clients sync.WaitGroup
		for range 32 {
			clients.Go(func() {
				for i := range next {
					numbers[i] = buildstest.PostBuild(t, w.URL+hello)
				}
			})
		}
		for i := range count {
			next <- i
		}
		close(next)
		clients.Wait()
		slices.Sort(numbers)
		for i, number := range numbers {
			if number != i+1 {
				t.Fatalf("the numbers are not 1 to %d: number %d is %d", count, i+1, number)
			}
		}
		pipeline := w.Ada.Get(acme + "/pipelines/hello")
		servertest.WantAt(t, pipeline, map[string]any{"scheduled_builds_count": count, "scheduled_jobs_count": count})
	})
}

func TestCreate_CountsFromOneInEachPipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("other", nil, "command: x")
		w.Create(nil)
		w.Create(nil)
		created := w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		servertest.WantEqual(t, "number", created.String("number"), "1")
	})
}

func TestCreate_SkipsOlderBuildsThatHaveNotStarted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}")
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"skip_queued_branch_builds": true, "skip_queued_branch_builds_filter": "!main"}).Want(http.StatusOK)
		feature := map[string]any{"branch": "feature"}
		w.Create(feature) // 1 is skipped
		w.Create(nil)     // 2 is of a branch that the filter leaves out
		w.Create(map[string]any{"branch": "elsewhere"})
		w.Create(feature) // 4 runs
		w.Follow()
		w.WantStates(1, "skipped", "a skipped")
		servertest.WantEqual(t, "finished_at", w.Build(1).String("finished_at"), w.Now())
		w.Start(w.Job(4, "a"))
		w.Create(feature)
		w.Create(nil)
		w.Follow()
		for number, want := range []string{1: "skipped", 2: "scheduled", 3: "scheduled", 4: "running", 5: "scheduled", 6: "scheduled"} {
			if number > 0 {
				servertest.WantEqual(t, fmt.Sprintf("build %d", number), w.Build(number).String("state"), want)
			}
		}
	})
}

func TestCreate_CancelsOlderBuildsThatRun(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{block: Go, key: ask}", "{command: b, key: b}")
		w.Ada.Patch(acme+"/pipelines/hello", map[string]any{"cancel_running_branch_builds": true, "cancel_running_branch_builds_filter": "main feature"}).Want(http.StatusOK)
		w.Create(nil)                                  // 1 runs
		w.Create(nil)                                  // 2 is blocked
		w.Create(nil)                                  // 3 has not started
		w.Create(map[string]any{"branch": "feature"})  // 4 runs on another branch
		w.Create(map[string]any{"branch": "unlisted"}) // 5 runs on a branch that the filter leaves out
		w.Follow()
		w.Start(w.Job(1, "a"))
		w.Run(2, "a", 0)
		w.Start(w.Job(4, "a"))
		w.Start(w.Job(5, "a"))
		w.Create(nil)
		w.Create(map[string]any{"branch": "unlisted"})
		w.Follow()
		w.WantStates(1, "canceling", "a canceling, ask canceled, b canceled")
		w.WantStates(2, "canceled", "a passed, ask canceled, b canceled")
		w.WantStates(3, "scheduled", "a scheduled, ask waiting, b waiting")
		servertest.WantEqual(t, "build 4", w.Build(4).String("state"), "running")
		servertest.WantEqual(t, "build 5", w.Build(5).String("state"), "running")
		if reason := w.Build(1).String("cancel_reason"); reason == "" {
			t.Error("build 1 does not say why it was canceled")
		}
		w.End(w.Job(1, "a"), 1)
		w.WantStates(1, "canceled", "a canceled, ask canceled, b canceled")
	})
}

func TestCreate_RefusesTooManyDependencies(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var steps strings.Builder
		for i := range 620 {
			fmt.Fprintf(&steps, "- {command: a, key: s%d, depends_on: [", i)
			for on := range i {
				fmt.Fprintf(&steps, "s%d,", on)
			}
			steps.WriteString("]}\n")
		}
		buildstest.Configure(w.Server, t, "steps:\n"+steps.String())
		refused := w.Ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusUnprocessableEntity)
		if message := refused.String("message"); !strings.Contains(message, "100000 dependencies") {
			t.Errorf("the message is %q, want one that names the limit", message)
		}
		servertest.WantEqual(t, "builds", w.Ada.Get(hello).Len(""), 0)
	})
}
