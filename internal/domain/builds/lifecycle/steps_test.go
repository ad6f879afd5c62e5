package lifecycle_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
)

// A madeJob is what the step language decides about a job.
type madeJob struct {
	ID, Type, Name, Label, State, Command string
	BrokenReason                          string `json:"broken_reason"`
	GroupKey                              string `json:"group_key"`
	Matrix                                any
	Index                                 *int `json:"parallel_group_index"`
	Total                                 *int `json:"parallel_group_total"`
	Priority                              struct{ Number int }
	Rules                                 []string `json:"agent_query_rules"`
	QueueID                               string   `json:"cluster_queue_id"`
}

// String says what there is to say about the job, such as "Test[test] scheduled 0/3 p5 os=linux".
func (j madeJob) String() string {
	words := []string{j.Type, j.State}
	if name := cmp.Or(j.Name, j.Label); name != "" || j.Command != "" {
		words[0] = fmt.Sprintf("%s[%s]", name, strings.ReplaceAll(j.Command, "\n", "; "))
	}
	if j.BrokenReason != "" {
		words[1] += " (" + j.BrokenReason + ")"
	}
	if j.Matrix != nil {
		text, _ := json.Marshal(j.Matrix)
		words = append(words, string(text))
	}
	if j.Index != nil {
		words = append(words, fmt.Sprintf("%d/%d", *j.Index, *j.Total))
	}
	if j.Priority.Number != 0 {
		words = append(words, fmt.Sprintf("p%d", j.Priority.Number))
	}
	return strings.Join(append(words, j.Rules...), " ")
}

// made returns the jobs of a build that was just made.
func made(created *servertest.Response) []madeJob {
	var build struct{ Jobs []madeJob }
	created.JSON(&build)
	return build.Jobs
}

// stepCases say which jobs definitions become.
var stepCases = []struct {
	name  string
	yaml  string
	build map[string]any
	want  []string
}{
	{"every kind of step", `
steps:
  - {command: test, label: Test, key: test}
  - wait
  - {block: "Sure?", key: ask}
  - {input: "Who?", key: who, depends_on: test}
  - {trigger: elsewhere, label: Deploy}
  - {plugins: [{"docker#v1": {image: go}}]}`, nil, []string{
		"Test[test] scheduled", "waiter waiting", "Sure?[] waiting", "Who?[] waiting", "Deploy[] waiting", "script waiting",
	}},
	{"commands in a list", `
steps:
  - {commands: [make, make test], name: Both}`, nil, []string{"Both[make; make test] scheduled"}},
	{"branches", `
steps:
  - {command: a, branches: main}
  - {command: b, branches: "release/* !release/1"}
  - {command: c, branches: [feature/*, main]}`, map[string]any{"branch": "release/2"}, []string{
		"[a] broken (branch_mismatch)", "[b] scheduled", "[c] broken (branch_mismatch)",
	}},
	{"branches of steps count for pull requests too", `
steps:
  - {command: a, branches: main}
  - {command: b, branches: fix}`, map[string]any{"branch": "fix", "pull_request_id": 7, "pull_request_base_branch": "main"}, []string{
		"[a] broken (branch_mismatch)", "[b] scheduled",
	}},
	{"conditions", `
env: {FROM: pipeline}
steps:
  - {command: a, if: 'build.branch == "main" && build.source == "api"'}
  - {command: b, if: 'build.tag != null'}
  - {command: c, if: 'build.message =~ /deploy/i'}
  - {command: d, if: 'build.env("GO") == "yes" && build.env("NONE") == null && build.env("FROM") == "pipeline"'}
  - {command: e, if: 'build.creator.email == "ada@acme.test" && build.creator.teams includes "everyone"'}
  - {command: f, if: 'build.number == 0 || build.pull_request.id != null'}
  - {command: g, if: 'pipeline.slug == "hello" && organization.slug == "acme"'}
  - {command: h, if: 'build.env("SERVICE_BRANCH") == build.branch && build.env("BUILDKITE_BRANCH") == build.branch'}
  - {wait: , if: 'build.branch == "other"'}
  - {block: Go, if: "!(build.branch == 'main')"}
  - {trigger: elsewhere, if: "false"}
  - {command: i, if: build.state == "creating"}`,
		map[string]any{"message": "Deploy it", "env": map[string]any{"GO": "yes"}}, []string{
			"[a] scheduled", "[b] broken (conditional_failed)", "[c] scheduled", "[d] scheduled", "[e] scheduled",
			"[f] broken (conditional_failed)", "[g] scheduled", "[h] scheduled", "waiter broken (conditional_failed)",
			"Go[] broken (conditional_failed)", "trigger broken (conditional_failed)", "[i] scheduled",
		}},
	{"conditions about pull requests", `
steps:
  - {command: a, if: 'build.pull_request.id == "7" && build.pull_request.base_branch == "main"'}
  - {command: b, if: 'build.pull_request.labels includes "bug"'}
  - {command: c, if: build.pull_request.draft}`,
		map[string]any{"pull_request_id": 7, "pull_request_base_branch": "main", "pull_request_labels": []string{"bug"}}, []string{
			"[a] scheduled", "[b] scheduled", "[c] broken (conditional_failed)",
		}},
	{"skip", `
steps:
  - {command: a, skip: true}
  - {command: b, skip: Flaky on Sundays}
  - {command: c, skip: ""}
  - {command: d, skip: false}
  - {trigger: elsewhere, skip: Not yet}
  - {command: e, skip: Later, if: "false"}`, nil, []string{
		"[a] broken (skipped)", "[b] broken (Flaky on Sundays)", "[c] scheduled", "[d] scheduled",
		"trigger broken (Not yet)", "[e] broken (conditional_failed)",
	}},
	{"groups hand down what they say", `
steps:
  - {group: A, if: "false", steps: [{command: a}, wait, {command: b, if: "true"}]}
  - {group: B, skip: Closed, steps: [{command: c}, {command: d, skip: Also}, {command: e, if: "false"}]}
  - {group: C, branches: other, steps: [{command: f}]}
  - {command: g, key: g}
  - {group: D, key: d, depends_on: g, steps: [{command: h}, {command: i, branches: other}]}
  - {command: j, depends_on: d}`, nil, []string{
		"[a] broken (conditional_failed)", "waiter broken (conditional_failed)", "[b] broken (conditional_failed)",
		"[c] broken (Closed)", "[d] broken (Closed)", "[e] broken (Closed)",
		"[f] broken (branch_mismatch)", "[g] scheduled", "[h] waiting", "[i] broken (branch_mismatch)", "[j] waiting",
	}},
	{"parallelism", `
steps:
  - {command: a, label: A, parallelism: 3}
  - {command: b, parallelism: 1}
  - {command: c, parallelism: 0}
  - {command: d, parallelism: 2, skip: No}
  - {trigger: elsewhere, parallelism: 2, branches: other}`, nil, []string{
		"A[a] scheduled 0/3", "A[a] scheduled 1/3", "A[a] scheduled 2/3", "[b] scheduled 0/1", "[c] broken (parallelism_zero)",
		"[d] broken (No) 0/2", "[d] broken (No) 1/2",
		"trigger broken (branch_mismatch) 0/2", "trigger broken (branch_mismatch) 1/2",
	}},
	{"a matrix of one list", `
steps:
  - {command: "test {{matrix}}", label: "Go {{ matrix }}", matrix: [1.25, "1.26"]}
  - {command: same, matrix: [x, y]}`, nil, []string{
		`Go 1.25[test 1.25] scheduled "1.25"`, `Go 1.26[test 1.26] scheduled "1.26"`, `[same] scheduled "x"`, `[same] scheduled "y"`,
	}},
	{"a matrix of dimensions", `
steps:
  - label: "{{matrix.os}}/{{matrix.arch}}"
    command: build
    matrix:
      setup: {os: [linux, macos], arch: [arm, amd]}
      adjustments:
        - {with: {os: macos, arch: amd}, skip: Too old}
        - {with: {os: linux, arch: arm}, soft_fail: true}
        - {with: {os: plan9, arch: mips}}`, nil, []string{
		`linux/arm[build] scheduled {"arch":"arm","os":"linux"}`, `linux/amd[build] scheduled {"arch":"amd","os":"linux"}`,
		`macos/arm[build] scheduled {"arch":"arm","os":"macos"}`, `macos/amd[build] broken (Too old) {"arch":"amd","os":"macos"}`,
		`plan9/mips[build] scheduled {"arch":"mips","os":"plan9"}`,
	}},
	{"agents", `
agents: {os: linux, size: small, queue: default}
steps:
  - {command: a}
  - {command: b, agents: {size: large, gpu: "*"}}
  - {command: c, agents: ["os=macos", arm]}
  - {command: "d {{matrix}}", agents: {os: "{{matrix}}"}, matrix: [bsd]}`, nil, []string{
		"[a] scheduled os=linux size=small queue=default", "[b] scheduled size=large gpu=* os=linux queue=default",
		"[c] scheduled os=macos arm=* size=small queue=default", `[d bsd] scheduled "bsd" os=bsd size=small queue=default`,
	}},
	{"priority", `
priority: 5
steps:
  - {command: a}
  - {command: b, priority: -1}
  - {command: c, priority: 0}`, nil, []string{"[a] scheduled p5", "[b] scheduled p-1", "[c] scheduled"}},
	{"variables", `
env: {TARGET: "${STAGE:-test}", TWICE: "$TARGET-$TARGET"}
steps:
  - {command: "deploy $TARGET $TWICE $HOME ${UNSET} $$BRANCH", label: "To $TARGET${UNSET} from $SERVICE_BRANCH, $BUILDKITE_COMMIT"}
  - {command: "shard $SERVICE_PARALLEL_JOB", parallelism: $SHARDS}
  - {command: "nr $SERVICE_BUILD_NUMBER", if: "build.branch == '${SERVICE_BRANCH}'"}
  - {command: a, agents: {queue: "${QUEUE-default}"}}`,
		map[string]any{"commit": "abc", "env": map[string]any{"STAGE": "live", "SHARDS": "2"}}, []string{
			"To live from main, abc[deploy live live-live $HOME ${UNSET} $BRANCH] scheduled",
			"[shard $SERVICE_PARALLEL_JOB] scheduled 0/2", "[shard $SERVICE_PARALLEL_JOB] scheduled 1/2",
			"[nr NUMBER] scheduled", "[a] scheduled queue=default",
		}},
}

func TestSteps_BecomeJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, c := range stepCases {
			buildstest.Configure(w.Server, t, c.yaml)
			created := w.Create(c.build)
			var got []string
			for _, j := range made(created) {
				got = append(got, j.String())
			}
			want := slices.Clone(c.want)
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "NUMBER", created.String("number"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:\ngot  %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
		}
	})
}

func TestSteps_GiveEachJobOfAMatrixWhatIsItsOwn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, `
steps:
  - command: "run {{matrix.os}}"
    label: "On {{matrix.os}}"
    artifact_paths: "out/*"
    env: {OS: "{{matrix.os}}", SAME: same}
    plugins:
      - "docker#v1": {image: "go:{{matrix.go}}", keep: [1, true]}
    matrix:
      setup: {os: [linux, macos], go: ["1", "2"]}
`)
		jobs := made(w.Create(nil))
		servertest.WantEqual(t, "jobs", len(jobs), 4)
		for i, values := range [][2]string{{"linux", "1"}, {"linux", "2"}, {"macos", "1"}, {"macos", "2"}} {
			servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+jobs[i].ID+"/env"), map[string]any{
				"env.OS":                     values[0],
				"env.SAME":                   "same",
				"env.SERVICE_LABEL":          "On " + values[0],
				"env.SERVICE_COMMAND":        "run " + values[0],
				"env.SERVICE_ARTIFACT_PATHS": "out/*",
				"env.SERVICE_PLUGINS":        `[{"github.com/buildkite-plugins/docker-buildkite-plugin#v1":{"image":"go:` + values[1] + `","keep":[1,true]}}]`,
			})
		}
		// A new attempt is of the same combination.
		w.Start(jobs[2].ID)
		w.End(jobs[2].ID, 1)
		again := w.Ada.Put(acme+"/jobs/"+jobs[2].ID+"/retry", nil).Want(http.StatusOK)
		servertest.WantAt(t, again, map[string]any{"name": "On macos", "command": "run macos", "matrix": map[string]any{"os": "macos", "go": "1"}})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+again.String("id")+"/env"), map[string]any{"env.OS": "macos"})
	})
}

func TestSteps_AdjustHowJobsOfAMatrixFail(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, `
steps:
  - command: "{{matrix}}"
    soft_fail: [{exit_status: 3}, {exit_status: [3, 4]}]
    matrix:
      setup: [a, b]
      adjustments: [{with: b, soft_fail: true}]
`)
		for number, c := range []struct {
			a, b int
			want string
		}{{3, 9, "passed"}, {4, 0, "passed"}, {9, 9, "failed"}} {
			w.Create(nil)
			w.Run(number+1, "a", c.a)
			w.Run(number+1, "b", c.b)
			servertest.WantEqual(t, fmt.Sprint(c), w.Build(number+1).String("state"), c.want)
		}
	})
}

func TestSteps_EnvironmentsOverrideOneAnother(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, `
env: {A: pipeline, B: pipeline, C: pipeline, SERVICE_BRANCH: pipeline}
steps:
  - {command: x, env: {B: step, C: step, CI: step}}
`)
		created := w.Create(map[string]any{"env": map[string]any{"B": "build", "C": "build", "D": "build"}})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+created.String("jobs.0.id")+"/env"), map[string]any{
			"env.A": "pipeline", "env.B": "step", "env.C": "step", "env.D": "build", "env.SERVICE_BRANCH": "main", "env.CI": "true",
			"env.SERVICE_BUILD_ID": created.String("id"),
		})
	})
}

// A variable in a command means what it means in the job's environment.
func TestSteps_FillInCommandsAsTheEnvironmentSays(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, `
env: {A: pipeline, B: pipeline, C: pipeline}
steps:
  - {command: "$A $B ${C}", label: "$A $B", env: {C: step}}
`)
		created := w.Create(map[string]any{"env": map[string]any{"B": "build"}})
		servertest.WantEqual(t, "command", created.String("jobs.0.command"), "pipeline build ${C}")
		servertest.WantEqual(t, "name", created.String("jobs.0.name"), "pipeline build")
	})
}

func TestSteps_KnowTheBuildTheyAreMadeFor(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("child", nil, `{command: "$SERVICE_BUILD_ID $SERVICE_BUILD_URL $SERVICE_CLUSTER_ID $SERVICE_TRIGGERED_FROM_BUILD_PIPELINE_SLUG/$SERVICE_TRIGGERED_FROM_BUILD_NUMBER"}`)
		w.Steps("{trigger: child, key: go}")
		w.CreateAll(nil)
		child := w.Ada.Get(acme + "/pipelines/child/builds/1").Want(http.StatusOK)
		servertest.WantEqual(t, "command", child.String("jobs.0.command"),
			child.String("id")+" "+w.URL+"/acme/child/builds/1 "+servertest.AcmeClusterID+" hello/1")
	})
}

func TestSteps_TimeOutAsStepPipelineAndOrganizationSay(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, timeout_in_minutes: 30}", "{command: b}")
		for _, c := range []struct {
			name                   string
			pipeline, organization map[string]any
			a, b                   string
		}{
			{"nothing", nil, nil, "30", "false"},
			{"the organization's default, which is for new pipelines", nil, map[string]any{"default_timeout_in_minutes": 20}, "30", "false"},
			{"the pipeline's default", map[string]any{"default_command_step_timeout": 15}, nil, "30", "15"},
			{"the pipeline's maximum", map[string]any{"maximum_command_step_timeout": 25}, nil, "25", "15"},
			{"the organization's maximum", nil, map[string]any{"maximum_timeout_in_minutes": 22}, "22", "15"},
			{"a maximum where no default is", map[string]any{"default_command_step_timeout": nil}, map[string]any{"default_timeout_in_minutes": nil}, "22", "22"},
		} {
			if c.pipeline != nil {
				w.Ada.Patch(acme+"/pipelines/hello", c.pipeline).Want(http.StatusOK)
			}
			if c.organization != nil {
				w.Ada.Patch(acme+"/pipeline-settings", c.organization).Want(http.StatusOK)
			}
			created := w.Create(nil)
			for i, want := range []string{c.a, c.b} {
				var env struct{ Env map[string]string }
				w.Ada.Get(acme + "/jobs/" + created.String(fmt.Sprintf("jobs.%d.id", i)) + "/env").JSON(&env)
				servertest.WantEqual(t, fmt.Sprintf("%s: timeout %d", c.name, i), env.Env["SERVICE_TIMEOUT"], want)
			}
		}
	})
}

func TestSteps_RefuseADefinitionThatDoesNotFitTheBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		body := map[string]any{"commit": "HEAD", "branch": "main"}
		buildstest.Configure(w.Server, t, "steps:\n  - {command: a, label: \"${STAGE?Which one}\"}\n  - {command: b, parallelism: $SHARDS}\n")
		w.Ada.Post(hello, body).WantFieldError("configuration", "line 2, column 26: the variable STAGE is not set: Which one")
		body["env"] = map[string]any{"STAGE": "live", "SHARDS": "many"}
		w.Ada.Post(hello, body).WantFieldError("configuration", "line 3, column 31: parallelism must be")
		body["env"] = map[string]any{"STAGE": "live", "SHARDS": "4000"}
		w.Ada.Post(hello, body).WantFieldError("configuration", "more than 4000 jobs")
		body["env"] = map[string]any{"STAGE": "live", "SHARDS": "2"}
		w.Ada.Post(hello, body).Want(http.StatusCreated)

		buildstest.Configure(w.Server, t, "steps:\n  - {command: a, agents: {queue: \"{{matrix}}\"}, matrix: [gpu, default, tpu]}\n  - {command: b, agents: {queue: gpu}}\n")
		w.Ada.Post(hello, body).WantMessage(http.StatusUnprocessableEntity,
			`The cluster has no queues with the keys "gpu", "tpu"; its queues are: default`)
		buildstest.Configure(w.Server, t, "steps:\n  - {command: \""+strings.Repeat("x", 20_000)+"\", parallelism: 4000}\n")
		w.Ada.Post(hello, body).WantMessage(http.StatusUnprocessableEntity, "The texts of all jobs together, such as their commands, have more than 67108864 bytes")
		servertest.WantEqual(t, "builds", w.Ada.Get(hello).Len(""), 1)
	})
}

// TestSteps_MakeFourThousandJobs prints how long it takes; the promise is two seconds on two idle cores.
func TestSteps_MakeFourThousandJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		values := make([]string, 50)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		list := strings.Join(values, ", ")
		buildstest.Configure(w.Server, t, `
steps:
  - {command: "test {{matrix.a}} {{matrix.b}}", label: "{{matrix.a}}/{{matrix.b}}", env: {A: "{{matrix.a}}"}, matrix: {setup: {a: [`+list+`], b: [`+strings.Join(values[:40], ", ")+`]}}}
  - {command: shard, parallelism: 1998}
  - wait
  - {command: end}
`)
		// Not by way of the client, which takes its time to hold the answer against the document.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+hello, strings.NewReader(`{"commit": "HEAD", "branch": "main"}`))
		w.WantNoError(err)
		req.Header.Set("Authorization", "Bearer "+servertest.Ada)
		began := time.Now()
		resp, err := http.DefaultClient.Do(req)
		w.WantNoError(err)
		_, err = io.Copy(io.Discard, resp.Body)
		w.WantNoError(err)
		t.Logf("4,000 jobs, made and answered with, in %v", time.Since(began).Round(time.Millisecond))
		resp.Body.Close()
		servertest.WantEqual(t, "status", resp.StatusCode, http.StatusCreated)
		jobs := made(w.Build(1))
		servertest.WantEqual(t, "jobs", len(jobs), 4000)
		servertest.WantEqual(t, "the last of the matrix", jobs[1999].String(), `49/39[test 49 39] scheduled {"a":"49","b":"39"}`)
		servertest.WantEqual(t, "the last of the parallel ones", jobs[3997].String(), "[shard] scheduled 1997/1998")
		servertest.WantEqual(t, "the last", jobs[3999].String(), "[end] waiting")
	})
}
