package lifecycle_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/rules/flow"
)

const (
	acme  = "/v2/organizations/acme"
	rival = "/v2/organizations/rival"
)

// A world is a server with the organization acme, as its administrator Ada sees it, and a service to move jobs with.
type world struct {
	*servertest.Server
	t       testing.TB
	ada     *servertest.Client
	service *lifecycle.Service
	orgID   string
}

// each runs a test with a fresh world on each engine.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, newWorld(t, s)) })
}

func newWorld(t *testing.T, s *servertest.Server) *world {
	t.Helper()
	w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada)}
	public := core.PublicURL(s.URL)
	w.service = lifecycle.New(s.DB, pipelines.New(s.DB, s.Key, public, s.Clock.Now, outbound.New(nil)), public, s.Clock.Now, slog.New(slog.DiscardHandler))
	timeline.New(s.DB, w.service, s.Clock.Now)
	err := s.DB.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT id FROM organizations WHERE slug = 'acme'`).Scan(&w.orgID)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// steps sets the steps of acme's pipeline hello, each a line of YAML.
func (w *world) steps(lines ...string) {
	w.t.Helper()
	configure(w.Server, w.t, "steps:\n  - "+strings.Join(lines, "\n  - ")+"\n")
}

// pipeline creates another pipeline of acme.
func (w *world) pipeline(slug string, more map[string]any, lines ...string) {
	w.t.Helper()
	body := map[string]any{
		"name": slug, "slug": slug, "repository": "https://git.example.test/acme/" + slug + ".git",
		"cluster_id": servertest.AcmeClusterID, "configuration": "steps:\n  - " + strings.Join(lines, "\n  - ") + "\n",
	}
	maps.Copy(body, more)
	w.ada.Post(acme+"/pipelines", body).Want(http.StatusCreated)
}

// create creates a build of hello.
func (w *world) create(more map[string]any) *servertest.Response {
	w.t.Helper()
	return create(w.Server, w.t, more)
}

// build returns a build of hello.
func (w *world) build(number int) *servertest.Response {
	w.t.Helper()
	return w.ada.Get(hello + "/" + strconv.Itoa(number)).Want(http.StatusOK)
}

// jobs are the jobs of a build of hello, all attempts.
func (w *world) jobs(number int) []job {
	w.t.Helper()
	return w.list(fmt.Sprintf("%s/%d/jobs?per_page=100", hello, number))
}

// list returns a list of jobs.
func (w *world) list(path string) []job {
	w.t.Helper()
	var list struct{ Items []job }
	w.ada.Get(path).Want(http.StatusOK).JSON(&list)
	return list.Items
}

// A job has the fields of a job that most tests need.
type job struct {
	ID, Type, State, Command, Label string
	StepKey                         string `json:"step_key"`
	RetriesCount                    int    `json:"retries_count"`
}

// name returns the key, command, label or type of the job.
func (j job) name() string {
	for _, name := range []string{j.StepKey, j.Command, j.Label} {
		if name != "" {
			return name
		}
	}
	return j.Type
}

// states returns the states of the jobs of a build of hello, for example "first passed, waiter waiting".
func (w *world) states(number int) string {
	w.t.Helper()
	return describe(w.jobs(number))
}

func describe(jobs []job) string {
	texts := make([]string, len(jobs))
	for i, j := range jobs {
		texts[i] = j.name() + " " + j.State
	}
	return strings.Join(texts, ", ")
}

// wantStates fails the test unless a build of hello and its jobs are in these states and the pipeline counts them so.
func (w *world) wantStates(number int, build, jobs string) {
	w.t.Helper()
	if got := w.states(number); got != jobs {
		w.t.Errorf("jobs of build %d are %q, want %q", number, got, jobs)
	}
	if got := w.build(number).String("state"); got != build {
		w.t.Errorf("build %d is %s, want %s", number, got, build)
	}
	w.wantCounts()
}

// job returns the newest attempt of the job of a build of hello with a name.
func (w *world) job(number int, name string) string {
	w.t.Helper()
	found := ""
	for _, j := range w.jobs(number) {
		if j.name() == name {
			found = j.ID
		}
	}
	if found == "" {
		w.t.Fatalf("build %d has no job %q: %s", number, name, w.states(number))
	}
	return found
}

// ok ends the test if there is an error.
func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start makes an agent accept and start a job.
func (w *world) start(id string) {
	w.t.Helper()
	ctx := w.t.Context()
	w.ok(w.assign(id))
	w.ok(w.service.Accept(ctx, w.orgID, id, someAgent))
	w.ok(w.service.Start(ctx, w.orgID, id, someAgent))
}

// someAgent is the id of an agent, where it does not matter which.
const someAgent = "0190c0de-0000-7000-8000-0000000000b1"

// assign assigns a job to an agent. The error is Unprocessable if that is not possible.
func (w *world) assign(id string) error {
	return assign(w.t.Context(), w.DB, w.service, w.orgID, id)
}

// assign assigns a job to an agent. The error is Unprocessable if that is not possible.
func assign(ctx context.Context, d *db.DB, service *lifecycle.Service, orgID, id string) error {
	var build string
	err := d.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT build_id FROM jobs WHERE id = $1`, id).Scan(&build)
	})
	if err != nil {
		return err
	}
	assigned, err := service.Assign(ctx, orgID, build, []flow.Offer{{JobID: id, AgentID: someAgent}})
	if err == nil && len(assigned) == 0 {
		err = core.Errorf(core.Unprocessable, "The job has moved")
	}
	return err
}

// end finishes a job with an exit status.
func (w *world) end(id string, status int) {
	w.t.Helper()
	w.ok(w.service.Finish(w.t.Context(), w.orgID, id, "", flow.Exit{Status: status}, ""))
}

// run starts and finishes the newest attempt of a job of a build of hello.
func (w *world) run(number int, name string, status int) {
	w.t.Helper()
	id := w.job(number, name)
	w.start(id)
	w.end(id, status)
}

// now returns the current time as responses show it.
func (w *world) now() string { return w.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// wantAt fails the test unless a response has values at paths.
func wantAt(t testing.TB, r *servertest.Response, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if got := r.At(path); fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("%s is %v, want %v", path, got, value)
		}
	}
}

// wantEqual fails the test unless both values are equal.
func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
