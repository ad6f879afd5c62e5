package agents_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

// world is a server with an agent.
type world struct {
	*servertest.Server
	t     *testing.T
	ada   *servertest.Client
	agent *servertest.Agent
}

// each runs a test on each engine.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		fn(t, &world{Server: s, t: t, ada: s.As(t, servertest.Ada), agent: s.Register(t, nil)})
	})
}

// build creates a build of hello with these steps, each a line of YAML.
func (w *world) build(steps ...string) *servertest.Response {
	w.t.Helper()
	if len(steps) > 0 {
		w.ada.Patch(servertest.HelloPath, fields{"configuration": "steps:\n  - " + strings.Join(steps, "\n  - ") + "\n"}).Want(http.StatusOK)
	}
	return w.ada.Post(servertest.HelloPath+"/builds", fields{"commit": "HEAD", "branch": "main", "message": "Say hello", "env": fields{"MINE": "1", "BUILDKITE_AGENT_ENDPOINT": "x"}}).Want(http.StatusCreated)
}

// job creates a build with one step and returns the id of its job.
func (w *world) job(step string) string {
	w.t.Helper()
	return w.build(step).String("jobs.0.id")
}

// show returns a job as the REST API shows it.
func (w *world) show(job string) *servertest.Response {
	w.t.Helper()
	return w.ada.Get("/v2/organizations/acme/jobs/" + job).Want(http.StatusOK)
}

func (w *world) runDue() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestAcquire_GivesTheJobWithItsEnvironment(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		agent := w.Register(t, fields{"name": "mill-1", "meta_data": []string{"os=linux", "queue=default", "big-disk=yes"}})
		id := w.job(`{command: make, label: Make, key: make, env: {COLOUR: red}, artifact_paths: "out/*", timeout_in_minutes: 7, plugins: [{"docker#v5": {image: go}}], secrets: [TOKEN, {key: DEPLOY, environment_variable: DEPLOY_KEY}]}`)
		resp := agent.Put("/v3/jobs/"+id+"/acquire", nil).Want(200)
		servertest.WantAt(t, resp, fields{
			"id": id, "state": "accepted", "chunks_max_size_bytes": 102400, "chunks_interval_seconds": 1, "priority": 0,
			"step.command": "make", "step.env.COLOUR": "red", "step.secrets.0.key": "TOKEN", "step.secrets.0.environment_variable": "TOKEN",
			"step.secrets.1.key": "DEPLOY", "step.secrets.1.environment_variable": "DEPLOY_KEY",
		})
		var job struct{ Env map[string]string }
		resp.JSON(&job)
		for name, want := range map[string]string{
			"": "true", "_JOB_ID": id, "_REPO": "https://git.example.test/acme/hello.git", "_COMMIT": "HEAD", "_BRANCH": "main", "_AGENT_NAME": "mill-1", "_AGENT_ID": agent.ID,
			"_ORGANIZATION_SLUG": "acme", "_PIPELINE_SLUG": "hello", "_PIPELINE_PROVIDER": "git", "_COMMAND": "make", "_PULL_REQUEST": "false",
			"_AGENT_META_DATA_OS": "linux", "_AGENT_META_DATA_QUEUE": "default", "_AGENT_META_DATA_BIG_DISK": "yes", "_LABEL": "Make", "_STEP_KEY": "make",
			"_MESSAGE": "Say hello", "_ARTIFACT_PATHS": "out/*", "_TIMEOUT": "7", "_CLUSTER_NAME": "Default", "_CLUSTER_ID": servertest.AcmeClusterID,
			"_RETRY_COUNT": "0", "_BUILD_NUMBER": "1", "_SOURCE": "api", "_BUILD_CREATOR": "Ada", "_PLUGINS": `[{"github.com/buildkite-plugins/docker-buildkite-plugin#v5":{"image":"go"}}]`,
		} {
			for _, prefix := range []string{"SERVICE", "BUILDKITE"} {
				if got, ok := job.Env[prefix+name]; !ok || got != want {
					t.Errorf("%s is %q, want %q", prefix+name, got, want)
				}
			}
		}
		for name, want := range map[string]string{"CI": "true", "MINE": "1", "COLOUR": "red"} {
			if job.Env[name] != want {
				t.Errorf("%s is %q, want %q", name, job.Env[name], want)
			}
		}
		for name := range job.Env {
			if strings.HasSuffix(name, "_AGENT_ENDPOINT") || strings.HasSuffix(name, "_AGENT_ACCESS_TOKEN") {
				t.Errorf("the variable %s is the agent's own", name)
			}
		}
	})
}

func TestAcquire_ReportsWhoUnblockedTheBuildAndTheGroup(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.build("{block: Ship it}", "{group: Ship, key: ship, steps: [{command: a}]}")
		w.ada.Put("/v2/organizations/acme/jobs/"+build.String("jobs.0.id")+"/unblock", nil).Want(200)
		job := w.agent.Acquire(build.String("jobs.1.id"))
		for name, want := range map[string]string{
			"BUILDKITE_UNBLOCKER": "Ada", "BUILDKITE_UNBLOCKER_ID": servertest.AdaID, "BUILDKITE_UNBLOCKER_EMAIL": "ada@acme.test",
			"BUILDKITE_UNBLOCKER_TEAMS": "everyone", "BUILDKITE_GROUP_KEY": "ship", "BUILDKITE_GROUP_LABEL": "Ship",
		} {
			servertest.WantEqual(t, name, job.Env[name], want)
		}
	})
}

func TestAcquire_PassesOnWhatStepAndPipelineSayToAgents(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(servertest.HelloPath, fields{"configuration": `
image: alpine:3
secrets: [SHARED, TOKEN]
checkout: {submodules: false}
steps:
  - command: a
  - command: b
    image: debian:13
    checkout: {skip: true, depth: 3}
    secrets: {TOKEN: OWN_TOKEN}
`}).Want(http.StatusOK)
		build := w.build()
		servertest.WantAt(t, w.agent.Put("/v3/jobs/"+build.String("jobs.0.id")+"/acquire", nil).Want(200), fields{
			"step.image": "alpine:3", "step.checkout.submodules": false, "env.BUILDKITE_GIT_SUBMODULES": "false",
			"step.secrets.0.key": "SHARED", "step.secrets.1.key": "TOKEN",
		})
		other := w.Register(t, nil)
		servertest.WantAt(t, other.Put("/v3/jobs/"+build.String("jobs.1.id")+"/acquire", nil).Want(200), fields{
			"step.image": "debian:13", "step.checkout.depth": 3, "env.BUILDKITE_SKIP_CHECKOUT": "true",
			"step.secrets.0.key": "SHARED", "step.secrets.1.key": "OWN_TOKEN", "step.secrets.1.environment_variable": "TOKEN",
		})
	})
}

func TestAcquire_OfAMatrixJobHasTheStepAsItWasWritten(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.job(`{command: "make {{matrix.os}}", matrix: {setup: {os: [linux]}}}`)
		resp := w.agent.Put("/v3/jobs/"+id+"/acquire", nil).Want(200)
		servertest.WantAt(t, resp, fields{"step.command": "make {{matrix.os}}", "env.BUILDKITE_COMMAND": "make linux", "matrix_permutation.os": "linux", "step.matrix.setup.os.0": "linux"})
	})
}

func TestAcquire_IsRefusedSoThatSupervisorsKnow(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.build("{command: a, key: a}", "{command: b, depends_on: a}", "{block: hold}", "{command: c}", "{command: d, concurrency: 1, concurrency_group: g}", "{command: e, concurrency: 1, concurrency_group: g}")
		job := func(i string) string { return build.String("jobs." + i + ".id") }
		acquire := func(id string) *response { return w.agent.Put("/v3/jobs/"+id+"/acquire", nil) }
		acquire(job("1")).Want(http.StatusLocked)
		acquire(job("2")).Want(http.StatusUnprocessableEntity)
		acquire(job("3")).Want(http.StatusLocked)
		acquire(core.NewID()).WantMessage(http.StatusUnprocessableEntity, "No job found")
		acquire("nonsense").Want(http.StatusUnprocessableEntity)

		mine := w.agent.Acquire(job("0"))
		w.Register(t, nil).Put("/v3/jobs/"+job("0")+"/acquire", nil).Want(http.StatusUnprocessableEntity)
		acquire(job("0")).Want(http.StatusOK) // its response was lost
		mine.Start().Finish("0")
		acquire(job("0")).Want(http.StatusUnprocessableEntity)
		w.ada.Put(servertest.HelloPath+"/builds/1/cancel", nil).Want(200)
		acquire(job("1")).Want(http.StatusUnprocessableEntity)
	})
}

func TestAcquire_IsForTheAgentsOwnCluster(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply(`
organizations:
  - slug: acme
    clusters:
      - name: Other
        queues: [{key: q, default: true}]
        agent_tokens: [{description: other, token: svcct_other}]
`)
		session := w.AsAgent(t, "svcct_other").Post("/v3/register", fields{}).Want(200).String("access_token")
		w.AsAgent(t, session).Put("/v3/jobs/"+w.job("{command: a}")+"/acquire", nil).WantMessage(422, "The job is for another cluster")
	})
}

func TestJob_GoesFromAcquireToFinish(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}"))
		servertest.WantAt(t, w.show(job.ID), fields{"state": "accepted", "agent.id": w.agent.ID, "agent.name": w.agent.Name})
		job.Start()
		job.Start() // its response was lost
		servertest.WantAt(t, job.Get(job.Path("")).Want(200), fields{"state": "running"})
		body := fields{"exit_status": "7", "signal": "", "finished_at": "2026-01-02T03:04:05Z", "chunks_failed_count": 2}
		job.Put(job.Path("/finish"), body).Want(200)
		job.Put(job.Path("/finish"), body).Want(200)
		servertest.WantAt(t, w.show(job.ID), fields{"state": "failed", "exit_status": 7, "detail": "Parts of its log could not be sent: 2.", "agent.id": w.agent.ID})
		job.Put(job.Path("/finish"), fields{"exit_status": "0"}).Want(422)
		job.Get(job.Path("")).Want(401)
		w.Clock.Advance(6 * time.Minute)
		job.Put(job.Path("/finish"), body).Want(401)
	})
}

func TestFinish_ReadsExitStatuses(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		for _, status := range []any{"", "x", "1e400", "99999999999", []int{1}, nil} {
			if resp := job.Put(job.Path("/finish"), fields{"exit_status": status}); resp.Status != 400 && resp.Status != 422 {
				t.Errorf("the exit status %v: %d %s", status, resp.Status, resp.Body)
			}
		}
		job.Put(job.Path("/finish"), fields{}).Want(422)
		job.Put(job.Path("/finish"), fields{"exit_status": "-1", "signal": "SIGTERM", "signal_reason": "agent_stop"}).Want(200)
		servertest.WantAt(t, w.show(job.ID), fields{"state": "failed", "exit_status": -1, "signal": "SIGTERM", "signal_reason": "agent_stop"})
	})
}

func TestStart_OfAJobThatWasCanceledEndsIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}"))
		w.ada.Put("/v2/organizations/acme/jobs/"+job.ID+"/cancel", nil).Want(200)
		servertest.WantAt(t, job.Get(job.Path("")).Want(200), fields{"state": "canceling"})
		job.Put(job.Path("/start"), fields{}).Want(422)
		servertest.WantAt(t, w.show(job.ID), fields{"state": "canceled"})
	})
}

func TestCancel_ReachesTheAgentAndEndsWhateverItDoes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.build("{command: a}", "{command: b}")
		obedient := w.agent.Acquire(build.String("jobs.0.id")).Start()
		deaf := w.Register(t, nil).Acquire(build.String("jobs.1.id")).Start()
		w.ada.Put(servertest.HelloPath+"/builds/1/cancel", nil).Want(200)
		servertest.WantAt(t, obedient.Get(obedient.Path("")).Want(200), fields{"state": "canceling"})
		obedient.Put(obedient.Path("/finish"), fields{"exit_status": "-1", "signal": "SIGTERM", "signal_reason": "cancel"}).Want(200)
		servertest.WantAt(t, w.show(obedient.ID), fields{"state": "canceled", "signal_reason": "cancel"})
		w.Clock.Advance(10 * time.Minute)
		w.runDue()
		servertest.WantAt(t, w.show(deaf.ID), fields{"state": "canceled"})
	})
}

func TestPromise_IsKeptOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}"))
		promise := func(status any) *response {
			return job.Put(job.Path("/promise_failure"), fields{"exit_status": status, "reason": "tests failed"})
		}
		promise(2).Want(422)
		job.Start()
		promise(0).Want(422)
		promise(-1).Want(422)
		promise(2).Want(204)
		promise(2).Want(204)
		promise(3).Want(409)
		servertest.WantAt(t, w.show(job.ID), fields{"state": "running", "promised_exit_status": 2})
	})
}

func TestTimeout_CanBeChangedWhileTheJobRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a, timeout_in_minutes: 10}"))
		set := func(timeout any) *response { return job.Put(job.Path(""), fields{"timeout": timeout}) }
		set("20").Want(422)
		job.Start()
		servertest.WantAt(t, set("20").Want(200), fields{"id": job.ID})
		w.Clock.Advance(15 * time.Minute)
		w.agent.Post("/v3/heartbeat", nil).Want(200)
		w.runDue()
		servertest.WantAt(t, job.Get(job.Path("")), fields{"state": "running"})
		set("70").Want(200)
		set("71").Want(422)
		set("0").Want(422)
		set("soon").Want(400)
		job.Put(job.Path(""), fields{"label": "x"}).Want(422)
		set("15").Want(200)
		w.agent.Post("/v3/heartbeat", nil).Want(200)
		w.runDue()
		servertest.WantAt(t, job.Get(job.Path("")), fields{"state": "timing_out"})
		job.Finish("-1")
		servertest.WantAt(t, w.show(job.ID), fields{"state": "timed_out"})
	})
}

func TestHolder_AloneSpeaksForAJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		other := w.Register(t, nil)
		for _, call := range []struct{ method, path string }{
			{"PUT", "/start"}, {"PUT", "/finish"}, {"GET", ""}, {"PUT", ""}, {"PUT", "/promise_failure"},
		} {
			other.Do(call.method, job.Path(call.path), fields{"exit_status": "0", "timeout": "5"}).Want(403)
		}
		other.Put(job.Path("/accept"), nil).Want(422)
		w.agent.Put(job.Path("/accept"), nil).Want(422) // it already runs
		w.agent.Get(job.Path("")).Want(200)             // with the session token too
		servertest.WantAt(t, w.show(job.ID), fields{"state": "running"})
	})
}

// An offered job can still be assigned to another agent, so the first one must not write its log or meta-data.
func TestHolder_SpeaksForAJobOnlyWhenItHasAccepted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		path := "/v3/jobs/" + job
		for _, call := range []struct{ method, path string }{
			{"PUT", "/start"}, {"PUT", "/finish"}, {"GET", ""}, {"PUT", ""}, {"PUT", "/promise_failure"},
			{"POST", "/chunks?sequence=1&offset=0&size=0"}, {"POST", "/header_times"}, {"POST", "/data/set"}, {"GET", "/secrets?key=a"},
		} {
			w.agent.Do(call.method, path+call.path, fields{}).Want(403)
		}
		w.agent.Accept(job).Start().Finish("0")
		servertest.WantAt(t, w.show(job), fields{"state": "passed"})
	})
}
