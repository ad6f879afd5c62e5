package settings_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

// A fleet is a running server whose jobs are run by agents over their API.
type fleet struct {
	*servertest.Server
	t     *testing.T
	ada   *servertest.Client
	agent *servertest.Agent
}

func eachFleet(t *testing.T, fn func(t *testing.T, f *fleet)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		fn(t, &fleet{Server: s, t: t, ada: s.As(t, servertest.Ada), agent: s.Register(t, nil)})
	})
}

// set changes pipeline settings of acme.
func (f *fleet) set(settings map[string]any) {
	f.t.Helper()
	f.ada.Patch(path, settings).Want(http.StatusOK)
}

// createPipeline creates a pipeline of steps, each a line of YAML, and returns its path.
func (f *fleet) createPipeline(name string, steps ...string) string {
	f.t.Helper()
	return "/v2/organizations/acme/pipelines/" + f.ada.Post("/v2/organizations/acme/pipelines", map[string]any{
		"name": name, "cluster_id": servertest.AcmeClusterID, "repository": "https://git.example.test/acme/x.git",
		"configuration": "steps:\n  - " + strings.Join(steps, "\n  - ") + "\n",
	}).Want(http.StatusCreated).String("slug")
}

// createBuild creates a build and returns the id of its first job.
func (f *fleet) createBuild(pipeline string) (job string) {
	f.t.Helper()
	return f.ada.Post(pipeline+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).String("jobs.0.id")
}

// pass lets time pass and runs what is due then. The agent stays connected.
func (f *fleet) pass(d time.Duration) {
	f.t.Helper()
	f.Clock.Advance(d)
	f.agent.Post("/v3/heartbeat", map[string]any{}).Want(http.StatusOK)
	if err := f.RunDue(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// wantStopped fails the test unless a running job is stopped after some minutes, and not before.
func (f *fleet) wantStopped(job string, minutes int) {
	f.t.Helper()
	f.pass(time.Duration(minutes)*time.Minute - time.Second)
	f.wantState(job, "running")
	f.pass(time.Second)
	f.wantState(job, "timing_out")
}

func (f *fleet) wantState(job, want string) {
	f.t.Helper()
	if got := f.ada.Get("/v2/organizations/acme/jobs/" + job).Want(http.StatusOK).String("state"); got != want {
		f.t.Fatalf("the job is %s, want %s", got, want)
	}
}

func TestDefaultTimeout_StopsJobsOfNewPipelines(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		f.set(map[string]any{"default_timeout_in_minutes": 7})
		job := f.agent.Acquire(f.createBuild(f.createPipeline("New", "command: make"))).Start()
		if got := job.Env["SERVICE_TIMEOUT"]; got != "7" {
			t.Errorf("SERVICE_TIMEOUT is %q, want 7", got)
		}
		f.wantStopped(job.ID, 7)
		job.Finish("143")
		f.wantState(job.ID, "timed_out")
	})
}

func TestMaximumTimeout_StopsJobsOfEveryPipeline(t *testing.T) {
	for name, c := range map[string]struct {
		step string
		want int
	}{
		"a step that wants more": {"{command: make, timeout_in_minutes: 90}", 10},
		"a step that wants less": {"{command: make, timeout_in_minutes: 4}", 4},
		"a step that has none":   {"command: make", 10},
		"a step with a matrix":   {"{command: \"make {{matrix}}\", matrix: [a], timeout_in_minutes: 11}", 10},
	} {
		t.Run(name, func(t *testing.T) {
			eachFleet(t, func(t *testing.T, f *fleet) {
				pipeline := f.createPipeline("Old", c.step)
				f.set(map[string]any{"maximum_timeout_in_minutes": 10})
				f.wantStopped(f.agent.Acquire(f.createBuild(pipeline)).Start().ID, c.want)
			})
		})
	}
}

func TestMaximumTimeout_CapsUploadedSteps(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		f.set(map[string]any{"maximum_timeout_in_minutes": 10})
		pipeline := f.createPipeline("Uploads", "command: upload")
		uploader := f.agent.Acquire(f.createBuild(pipeline)).Start()
		uploader.Post(uploader.Path("/pipelines"), map[string]any{
			"uuid": "0190c0de-0000-7000-8000-00000000ffff", "pipeline": map[string]any{"steps": []any{map[string]any{"command": "slow", "timeout_in_minutes": 90}}},
		}).Want(http.StatusOK)
		uploader.Finish("0")
		uploaded := f.ada.Get(pipeline + "/builds/1").Want(http.StatusOK).String("jobs.1.id")
		f.wantStopped(f.agent.Acquire(uploaded).Start().ID, 10)
	})
}

func TestMaximumTimeout_CapsRetriesOfOlderJobs(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		pipeline := f.createPipeline("Retries", "{command: a, timeout_in_minutes: 90}", "command: b", "{command: c, timeout_in_minutes: 5}")
		f.createBuild(pipeline)
		built := f.ada.Get(pipeline + "/builds/1").Want(http.StatusOK)
		f.set(map[string]any{"maximum_timeout_in_minutes": 10})
		for i, want := range []string{"10", "10", "5"} {
			id := built.String(fmt.Sprintf("jobs.%d.id", i))
			f.agent.Acquire(id).Start().Finish("1")
			next := f.ada.Put("/v2/organizations/acme/jobs/"+id+"/retry", nil).Want(http.StatusOK).String("id")
			job := f.agent.Acquire(next)
			if got := job.Env["SERVICE_TIMEOUT"]; got != want {
				t.Errorf("the retry of job %d has the timeout %q, want %s", i, got, want)
			}
			job.Start().Finish("1")
		}
	})
}

func TestScheduledJobExpiry_EndsJobsThatNoAgentTakes(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		pipeline := f.createPipeline("Waits", "command: make")
		before := f.createBuild(pipeline)
		f.set(map[string]any{"scheduled_job_expiry_in_minutes": 20})
		f.pass(5 * time.Minute)
		after := f.createBuild(pipeline)
		f.pass(15*time.Minute - time.Second)
		f.wantState(before, "scheduled")
		f.pass(time.Second)
		f.wantState(before, "expired")
		f.wantState(after, "scheduled")
		f.pass(5 * time.Minute)
		f.wantState(after, "expired")
		if state := f.ada.Get(pipeline + "/builds/1").Want(http.StatusOK).String("state"); state != "failed" {
			t.Errorf("the build is %s, want failed", state)
		}
		if resp := f.agent.Put("/v3/jobs/"+after+"/acquire", nil); resp.Status/100 == 2 {
			t.Error("an agent acquired an expired job")
		}
	})
}
