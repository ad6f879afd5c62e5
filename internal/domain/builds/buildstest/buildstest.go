// Package buildstest is for tests about builds: a server, and a service that moves jobs as agents do.
package buildstest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// Paths of the REST API.
const (
	Acme  = "/v2/organizations/acme"
	Rival = "/v2/organizations/rival"
	Hello = Acme + "/pipelines/hello/builds" // builds of acme's pipeline hello
)

// A World is a scenario with a service that moves jobs.
type World struct {
	*servertest.Scenario
	Service *lifecycle.Service
}

// Each runs a test with a fresh world on each engine.
func Each(t *testing.T, fn func(t *testing.T, w *World)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, New(t, s)) })
}

// New returns the world of a server.
func New(t *testing.T, s *servertest.Server) *World {
	t.Helper()
	w := &World{s.Scenario(t), s.Builds()}
	timeline.New(s.DB, w.Service, s.Clock.Now)
	return w
}

// Configure gives acme's pipeline hello a configuration.
func Configure(s *servertest.Server, t testing.TB, yaml string) {
	t.Helper()
	s.As(t, servertest.Ada).Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"configuration": yaml}).Want(http.StatusOK)
}

// Create creates a build of hello.
func Create(s *servertest.Server, t testing.TB, more map[string]any) *servertest.Response {
	t.Helper()
	body := map[string]any{"commit": "HEAD", "branch": "main"}
	for name, value := range more {
		body[name] = value
	}
	return s.As(t, servertest.Ada).Post(Hello, body).Want(http.StatusCreated)
}

// AddPipeline creates another pipeline of acme.
func (w *World) AddPipeline(slug string, more map[string]any, lines ...string) {
	w.T.Helper()
	body := map[string]any{
		"name": slug, "slug": slug, "repository": "https://git.example.test/acme/" + slug + ".git",
		"cluster_id": servertest.AcmeClusterID, "configuration": "steps:\n  - " + strings.Join(lines, "\n  - ") + "\n",
	}
	maps.Copy(body, more)
	w.Ada.Post(Acme+"/pipelines", body).Want(http.StatusCreated)
}

// Create creates a build of hello.
func (w *World) Create(more map[string]any) *servertest.Response {
	w.T.Helper()
	return Create(w.Server, w.T, more)
}

// Build returns a build of hello.
func (w *World) Build(number int) *servertest.Response {
	w.T.Helper()
	return w.Ada.Get(Hello + "/" + strconv.Itoa(number)).Want(http.StatusOK)
}

// Jobs are the jobs of a build of Hello, all attempts.
func (w *World) Jobs(number int) []Job {
	w.T.Helper()
	return w.ListJobs(fmt.Sprintf("%s/%d/jobs?per_page=100", Hello, number))
}

// ListJobs returns a list of jobs.
func (w *World) ListJobs(path string) []Job {
	w.T.Helper()
	var list struct{ Items []Job }
	w.Ada.Get(path).Want(http.StatusOK).JSON(&list)
	return list.Items
}

// A Job has the fields of a job that most tests need.
type Job struct {
	ID, Type, State, Command, Label string
	StepKey                         string `json:"step_key"`
	RetriesCount                    int    `json:"retries_count"`
}

// Name returns the key, command, label or type of the job.
func (j Job) Name() string {
	for _, name := range []string{j.StepKey, j.Command, j.Label} {
		if name != "" {
			return name
		}
	}
	return j.Type
}

// States returns the states of the jobs of a build of Hello, for example "first passed, waiter waiting".
func (w *World) States(number int) string {
	w.T.Helper()
	return Describe(w.Jobs(number))
}

// Describe returns jobs as States does.
func Describe(jobs []Job) string {
	texts := make([]string, len(jobs))
	for i, j := range jobs {
		texts[i] = j.Name() + " " + j.State
	}
	return strings.Join(texts, ", ")
}

// WantStates fails the test unless a build of hello and its jobs are in these states and the pipeline counts them so.
func (w *World) WantStates(number int, build, jobs string) {
	w.T.Helper()
	if got := w.States(number); got != jobs {
		w.T.Errorf("jobs of build %d are %q, want %q", number, got, jobs)
	}
	if got := w.Build(number).String("state"); got != build {
		w.T.Errorf("build %d is %s, want %s", number, got, build)
	}
	w.WantCounts()
}

// Job returns the newest attempt of the job of a build of hello with a name.
func (w *World) Job(number int, name string) string {
	w.T.Helper()
	found := ""
	for _, j := range w.Jobs(number) {
		if j.Name() == name {
			found = j.ID
		}
	}
	if found == "" {
		w.T.Fatalf("build %d has no job %q: %s", number, name, w.States(number))
	}
	return found
}

// WantNoError ends the test if there is an error.
func (w *World) WantNoError(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Start makes an agent accept and start a job.
func (w *World) Start(id string) {
	w.T.Helper()
	ctx := w.T.Context()
	w.WantNoError(w.Assign(id))
	w.WantNoError(w.Service.Accept(ctx, w.OrgID, id, SomeAgent))
	w.WantNoError(w.Service.Start(ctx, w.OrgID, id, SomeAgent))
}

// SomeAgent is the id of an agent, where it does not matter which.
const SomeAgent = "0190c0de-0000-7000-8000-0000000000b1"

// Assign assigns a job to an agent. The error is Unprocessable if that is not possible.
func (w *World) Assign(id string) error {
	return Assign(w.T.Context(), w.DB, w.Service, w.OrgID, id)
}

// Assign assigns a job to an agent. The error is Unprocessable if that is not possible.
func Assign(ctx context.Context, d *db.DB, service *lifecycle.Service, orgID, id string) error {
	var build string
	err := d.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT build_id FROM jobs WHERE id = $1`, id).Scan(&build)
	})
	if err != nil {
		return err
	}
	assigned, err := service.Assign(ctx, orgID, build, []flow.Offer{{JobID: id, AgentID: SomeAgent}})
	if err == nil && len(assigned) == 0 {
		err = core.Errorf(core.Unprocessable, "The job has moved")
	}
	return err
}

// End finishes a job with an exit status.
func (w *World) End(id string, status int) {
	w.T.Helper()
	w.WantNoError(w.Service.Finish(w.T.Context(), w.OrgID, id, "", flow.Exit{Status: status}, ""))
}

// Run starts and finishes the newest attempt of a job of a build of hello.
func (w *World) Run(number int, name string, status int) {
	w.T.Helper()
	id := w.Job(number, name)
	w.Start(id)
	w.End(id, status)
}

// Now returns the current time as responses show it.
func (w *World) Now() string { return w.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// WantCounts fails the test unless the counts of hello are those of its unfinished builds.
func (w *World) WantCounts() {
	w.T.Helper()
	var shown, counted struct {
		ID              string
		ScheduledBuilds int `json:"scheduled_builds_count"`
		RunningBuilds   int `json:"running_builds_count"`
		ScheduledJobs   int `json:"scheduled_jobs_count"`
		RunningJobs     int `json:"running_jobs_count"`
		WaitingJobs     int `json:"waiting_jobs_count"`
	}
	w.Ada.Get(Acme + "/pipelines/hello").Want(http.StatusOK).JSON(&shown)
	counted.ID = shown.ID
	err := w.DB.Read(w.T.Context(), func(q *db.Q) error {
		return q.QueryRow(`
			SELECT COALESCE(SUM(CASE WHEN state IN ('creating', 'scheduled') THEN 1 ELSE 0 END), 0),
				COALESCE(SUM(CASE WHEN state IN ('running', 'failing', 'canceling') THEN 1 ELSE 0 END), 0),
				COALESCE(SUM(scheduled_jobs), 0), COALESCE(SUM(running_jobs), 0), COALESCE(SUM(waiting_jobs), 0)
			FROM builds WHERE finished_at IS NULL AND pipeline_id = $1`, shown.ID).
			Scan(&counted.ScheduledBuilds, &counted.RunningBuilds, &counted.ScheduledJobs, &counted.RunningJobs, &counted.WaitingJobs)
	})
	if err != nil || shown != counted {
		w.T.Errorf("the pipeline counts %+v, its unfinished builds make %+v, %v", shown, counted, err)
	}
}

// Pass lets time pass, and does what is due then.
func (w *World) Pass(d time.Duration) {
	w.T.Helper()
	w.Clock.Advance(d)
	w.WantNoError(w.RunDue(w.T.Context()))
}

// Follow does what follows from builds for other builds.
func (w *World) Follow() {
	w.T.Helper()
	w.Pass(0)
}

// CreateAll makes a build of hello and what follows from it, and returns the build as it is then.
func (w *World) CreateAll(more map[string]any) *servertest.Response {
	w.T.Helper()
	created := w.Create(more)
	w.Follow()
	return w.Ada.Get(Hello + "/" + created.String("number")).Want(http.StatusOK)
}

// Numbers says which builds a list has.
func Numbers(t *testing.T, r *servertest.Response) string {
	t.Helper()
	var builds []struct{ Number int }
	r.Want(http.StatusOK).JSON(&builds)
	texts := make([]string, len(builds))
	for i, b := range builds {
		texts[i] = fmt.Sprint(b.Number)
	}
	return strings.Join(texts, " ")
}

// PostBuild makes a build and returns its number. It does without the checks of servertest, which take longer
// than the build.
func PostBuild(t *testing.T, url string) int {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"commit": "HEAD", "branch": "main"}`))
	if err != nil {
		t.Error(err)
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+servertest.Ada)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	var created struct{ Number int }
	if err := json.NewDecoder(response.Body).Decode(&created); err != nil || response.StatusCode != http.StatusCreated {
		t.Errorf("status %d, error %v", response.StatusCode, err)
	}
	return created.Number
}
