package statuses_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	acme = "/v2/organizations/acme"
	app  = acme + "/pipelines/app"
	sha  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

type fields = map[string]any

// A set is a status that a host has accepted.
type set struct{ context, state, description, url string }

// host behaves like the APIs of source hosts where they take commit statuses: it checks paths, credentials and bodies as
// they document them.
type host struct {
	*httptest.Server
	t        testing.TB
	mu       sync.Mutex
	sets     []set
	asked    int
	response func(w http.ResponseWriter) bool // true: it has answered
}

// The documented bodies; other fields are refused.
type (
	githubBody struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	gitlabBody struct {
		State, Name, Description string
		TargetURL                string `json:"target_url"`
	}
	bitbucketBody struct{ Key, State, Name, URL, Description string }
)

// A shape is how a provider takes a status.
type shape struct {
	path, header, value string
	status              int
	states              []string
	read                func(d *json.Decoder) (set, error)
}

func readGitHub(d *json.Decoder) (set, error) {
	var b githubBody
	err := d.Decode(&b)
	return set{b.Context, b.State, b.Description, b.TargetURL}, err
}

func readBitbucket(d *json.Decoder) (set, error) {
	var b bitbucketBody
	err := d.Decode(&b)
	if len(b.Key) > 40 || b.Key == "" || b.Name == "" {
		err = fmt.Errorf("the key is %q", b.Key)
	}
	return set{b.Key, b.State, b.Description, b.URL}, err
}

var shapes = map[string]shape{
	"github":           {"/repos/acme/app/statuses/" + sha, "Authorization", "Bearer t0ken", 201, []string{"pending", "success", "failure", "error"}, readGitHub},
	"gitea":            {"/repos/acme/app/statuses/" + sha, "Authorization", "token t0ken", 201, []string{"pending", "success", "failure", "error"}, readGitHub},
	"bitbucket":        {"/repositories/acme/app/commit/" + sha + "/statuses/build", "Authorization", "Bearer t0ken", 201, []string{"INPROGRESS", "SUCCESSFUL", "FAILED"}, readBitbucket},
	"bitbucket_server": {"/projects/acme/repos/app/commits/" + sha + "/builds", "Authorization", "Bearer t0ken", 204, []string{"INPROGRESS", "SUCCESSFUL", "FAILED"}, readBitbucket},
	"gitlab": {"/projects/acme%2Fapp/statuses/" + sha, "Private-Token", "t0ken", 201, []string{"pending", "running", "success", "failed", "canceled"},
		func(d *json.Decoder) (set, error) {
			var b gitlabBody
			err := d.Decode(&b)
			return set{b.Name, b.State, b.Description, b.TargetURL}, err
		}},
}

func startHost(t testing.TB, provider string) *host {
	h := &host{t: t}
	kind := shapes[provider]
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asked++
		body, _ := io.ReadAll(r.Body)
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		got, err := kind.read(d)
		switch {
		case h.response != nil && h.response(w):
		case r.Method != http.MethodPost || r.URL.EscapedPath() != kind.path:
			t.Errorf("%s %s", r.Method, r.URL.EscapedPath())
			http.NotFound(w, r)
		case r.Header.Get(kind.header) != kind.value:
			http.Error(w, `{"message":"401 Unauthorized"}`, http.StatusUnauthorized)
		case err != nil || !slices.Contains(kind.states, got.state) || len(got.description) > 140:
			t.Errorf("%v in %s", err, body)
			http.Error(w, `{"message":"invalid"}`, http.StatusUnprocessableEntity)
		case provider == "gitlab" && len(h.sets) > 0 && h.sets[len(h.sets)-1].state == got.state && h.sets[len(h.sets)-1].context == got.context:
			http.Error(w, `{"message":"Cannot transition status via :run from :running"}`, http.StatusBadRequest)
		default:
			h.sets = append(h.sets, got)
			w.WriteHeader(kind.status)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// take returns the statuses that were set since it was called last.
func (h *host) take() []set {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.sets
	h.sets = nil
	return taken
}

func (h *host) want(want ...string) {
	h.t.Helper()
	var got []string
	for _, s := range h.take() {
		got = append(got, s.context+" "+s.state)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		h.t.Errorf("set %q, want %q", got, want)
	}
}

func (h *host) respond(response func(w http.ResponseWriter) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.response = response
}

func (h *host) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// A world is a server with the pipeline app on a connected host.
type world struct {
	*servertest.Server
	t    testing.TB
	ada  *servertest.Client
	host *host
}

func newWorld(t testing.TB, s *servertest.Server, provider, steps string, settings fields) *world {
	w := &world{s, t, s.As(t, servertest.Ada), startHost(t, provider)}
	w.ada.Post(acme+"/source-connections", fields{"host": "git.acme.test", "provider": provider, "api_url": w.host.URL, "token": "t0ken"}).Want(http.StatusCreated)
	w.ada.Post(acme+"/pipelines", fields{"name": "App", "repository": "git@git.acme.test:acme/app.git", "cluster_id": servertest.AcmeClusterID,
		"configuration": steps, "provider_settings": settings}).Want(http.StatusCreated)
	return w
}

func eachWorld(t *testing.T, steps string, settings fields, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, newWorld(t, s, "github", steps, settings)) })
}

func (w *world) runDue() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) build(more fields) *servertest.Response {
	w.t.Helper()
	body := fields{"commit": sha, "branch": "main"}
	for name, value := range more {
		body[name] = value
	}
	return w.ada.Post(app+"/builds", body).Want(http.StatusCreated)
}

// start has an agent run a job of a build.
func (w *world) start(b *servertest.Response, i int) *servertest.Job {
	w.t.Helper()
	return w.Register(w.t, nil).Acquire(b.String(fmt.Sprintf("jobs.%d.id", i))).Start()
}

const oneStep = "steps: [{command: make, label: ':hammer: Unit Tests'}]"

func TestStatuses_AreSetAsEachHostDocuments(t *testing.T) {
	for provider, want := range map[string][3]string{
		"github":           {"pending", "pending", "success"},
		"gitea":            {"pending", "pending", "success"},
		"gitlab":           {"pending", "running", "success"},
		"bitbucket":        {"INPROGRESS", "INPROGRESS", "SUCCESSFUL"},
		"bitbucket_server": {"INPROGRESS", "INPROGRESS", "SUCCESSFUL"},
	} {
		t.Run(provider, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servertest.Server) {
				w := newWorld(t, s, provider, oneStep, nil)
				b := w.build(nil)
				w.runDue()
				w.host.want("stackyard/app " + want[0])
				job := w.start(b, 0)
				w.runDue()
				w.host.want("stackyard/app " + want[1])
				w.Clock.Advance(90 * time.Second)
				job.Finish("0")
				w.runDue()
				got := w.host.take()
				if len(got) != 1 || got[0] != (set{"stackyard/app", want[2], "Build #1 passed after 1m30s", w.URL + "/acme/app/builds/1"}) {
					t.Errorf("set %q", got)
				}
				w.runDue()
				w.host.want()
				list := w.ada.Get(app + "/builds/1/commit-statuses").Want(http.StatusOK)
				servertest.WantAt(t, list, fields{"0.context": "stackyard/app", "0.state": "passed", "0.sent": true, "0.error": nil, "0.commit": sha})
			})
		})
	}
}

func TestStatuses_OnlyTheNewestStateIsSent(t *testing.T) {
	eachWorld(t, oneStep, nil, func(t *testing.T, w *world) {
		b := w.build(nil)
		w.start(b, 0).Finish("1")
		w.runDue()
		w.host.want("stackyard/app failure")
		// A newer build of the commit decides, also when the older one ends later.
		older, newer := w.build(nil), w.build(nil)
		w.runDue()
		w.host.want("stackyard/app pending")
		w.start(newer, 0).Finish("0")
		w.runDue()
		w.host.want("stackyard/app success")
		w.start(older, 0).Finish("1")
		w.runDue()
		w.host.want()
		// Builds without a commit id have no commit to show them at.
		w.build(fields{"commit": "HEAD"})
		w.runDue()
		w.host.want()
	})
}

func TestStatuses_WaitAsTheHostAsks(t *testing.T) {
	eachWorld(t, oneStep, nil, func(t *testing.T, w *world) {
		other := w.Replica(t)
		limits := map[string]func(w http.ResponseWriter){
			"Retry-After": func(rw http.ResponseWriter) {
				rw.Header().Set("Retry-After", "600")
				rw.WriteHeader(http.StatusTooManyRequests)
			},
			"X-RateLimit-Reset": func(rw http.ResponseWriter) {
				rw.Header().Set("X-RateLimit-Remaining", "0")
				rw.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(10*time.Minute).Unix()))
				rw.WriteHeader(http.StatusForbidden)
			},
		}
		for name, limited := range limits {
			w.host.respond(func(rw http.ResponseWriter) bool { limited(rw); return true })
			b := w.build(nil)
			w.runDue()
			before := w.host.requests()
			w.start(b, 0).Finish("0")
			for range 3 {
				w.Clock.Advance(time.Minute)
				if err := other.RunDue(t.Context()); err != nil { // also for the new state, and on other replicas
					t.Fatal(err)
				}
				w.runDue()
			}
			if got := w.host.requests(); got != before {
				t.Errorf("%s: %d requests while it asks to wait", name, got-before)
			}
			servertest.WantEqual(t, "sent", fmt.Sprint(w.ada.Get(app+"/builds/"+fmt.Sprint(b.At("number"))+"/commit-statuses").At("0.sent")), "false")
			w.host.respond(nil)
			w.Clock.Advance(11 * time.Minute)
			w.runDue()
			w.host.want("stackyard/app success")
		}
	})
}

func TestStatuses_AreTriedAgainUntilTheHostAnswers(t *testing.T) {
	eachWorld(t, oneStep, nil, func(t *testing.T, w *world) {
		w.host.respond(func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusBadGateway); return true })
		b := w.build(nil)
		for range 5 {
			w.runDue()
			w.Clock.Advance(15 * time.Minute)
		}
		servertest.WantAt(t, w.ada.Get(app+"/builds/1/commit-statuses"), fields{"0.sent": false, "0.error": "the source host is unavailable: it answered with status 502 (without a reason)"})
		// The host dies in the middle of a request.
		w.host.respond(func(rw http.ResponseWriter) bool { panic(http.ErrAbortHandler) })
		w.runDue()
		if err := w.ada.Get(app + "/builds/1/commit-statuses").String("0.error"); !strings.Contains(err, "no answer from") {
			t.Errorf("the error is %q", err)
		}
		w.host.respond(nil)
		w.start(b, 0).Finish("0")
		w.Clock.Advance(15 * time.Minute)
		w.runDue()
		w.host.want("stackyard/app success")
		servertest.WantAt(t, w.ada.Get(app+"/builds/1/commit-statuses"), fields{"0.sent": true, "0.error": nil})
		// It gives up after a day.
		w.host.respond(func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusBadGateway); return true })
		w.build(nil)
		w.runDue()
		w.Clock.Advance(25 * time.Hour)
		w.runDue()
		servertest.WantAt(t, w.ada.Get(app+"/builds/2/commit-statuses"), fields{"0.sent": true})
	})
}

func TestStatuses_ThatAreRefusedAreNotTriedAgain(t *testing.T) {
	eachWorld(t, oneStep, nil, func(t *testing.T, w *world) {
		w.host.respond(func(rw http.ResponseWriter) bool {
			http.Error(rw, `{"message":"Resource not accessible"}`, http.StatusForbidden)
			return true
		})
		w.build(nil)
		w.runDue()
		before := w.host.requests()
		w.Clock.Advance(time.Hour)
		w.runDue()
		servertest.WantEqual(t, "requests", w.host.requests(), before)
		servertest.WantAt(t, w.ada.Get(app+"/builds/1/commit-statuses"), fields{
			"0.error": "the source host refused: the token may not set commit statuses of acme/app (Resource not accessible)"})
	})
}

func TestStatuses_AreSentByAnotherReplica(t *testing.T) {
	eachWorld(t, oneStep, nil, func(t *testing.T, w *world) {
		b := w.build(nil)
		w.runDue()
		w.host.want("stackyard/app pending")
		w.start(b, 0).Finish("0")
		other := w.Replica(t) // nothing of the first is in memory here
		if err := other.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.host.want("stackyard/app success")
		w.runDue()
		w.host.want()
	})
}

func TestStatuses_OfJobsAreBounded(t *testing.T) {
	steps := "steps: [{command: make, label: Test, parallelism: 150}, {command: lint, label: 'Lint & Vet', key: lint}]"
	eachWorld(t, steps, fields{"publish_commit_status_per_step": true}, func(t *testing.T, w *world) {
		b := w.build(nil)
		w.runDue()
		got := w.host.take()
		if len(got) != 101 || !slices.ContainsFunc(got, func(s set) bool { return s.context == "stackyard/app/test-1" }) {
			t.Errorf("%d statuses, %q", len(got), got[:3])
		}
		job := w.start(b, 0)
		job.Finish("3")
		w.runDue()
		// The build fails while other jobs wait.
		for _, s := range w.host.take() {
			if s.context == "stackyard/app/test-1" && s != (set{"stackyard/app/test-1", "failure", "Build #1: the job failed with exit status 3", w.URL + "/acme/app/builds/1#" + job.ID}) {
				t.Errorf("set %q", s)
			}
		}
	})
}

// A build with the most jobs sends a bounded number of statuses, however slowly its jobs run.
func TestStatuses_OfALargeBuildAreFew(t *testing.T) {
	const stepCount, run = 8, 5
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		parallelism := 500
		if s.DB.Engine() == db.PostgreSQL {
			parallelism = 50 // jobs cost more there, and the statuses are the same
		}
		step := fmt.Sprintf("{command: make, label: Test, parallelism: %d, notify: [{github_commit_status: {context: ci/test}}]}", parallelism)
		steps := "steps: [" + strings.Repeat(step+", ", stepCount-1) + step + "]"
		w := newWorld(t, s, "github", steps, fields{"publish_commit_status_per_step": true})
		b := w.build(nil)
		servertest.WantEqual(t, "jobs", len(b.At("jobs").([]any)), parallelism*stepCount)
		w.runDue()
		sent := len(w.host.take())
		for i := range run { // each change is sent before the next one
			job := w.start(b, i)
			w.runDue()
			job.Finish("0")
			w.runDue()
		}
		after := map[string]int{}
		for _, s := range w.host.take() {
			after[s.context]++
		}
		w.ada.Put(app+"/builds/1/cancel", nil).Want(http.StatusOK)
		w.runDue()
		atEnd := len(w.host.take())
		t.Logf("%d jobs: %d statuses at first, %d of %d jobs that ran, %d at the end", parallelism*stepCount, sent, len(after), run, atEnd)
		if most := 102; sent > most || atEnd > most {
			t.Errorf("sent %d at first and %d at the end, want at most %d", sent, atEnd, most)
		}
		if after["ci/test"] != 1 || after["stackyard/app"] != 1 || after["stackyard/app/test-1"] != 2 {
			t.Errorf("sent while jobs ran: %v", after)
		}
	})
}

func TestStatuses_OfEachStep(t *testing.T) {
	steps := "steps: [{command: make, label: ':hammer: Unit Tests', key: unit}]"
	eachWorld(t, steps, fields{"publish_commit_status_per_step": true, "separate_pull_request_statuses": true}, func(t *testing.T, w *world) {
		b := w.build(nil)
		w.runDue()
		w.host.want("stackyard/app pending", "stackyard/app/hammer-unit-tests pending")
		w.start(b, 0).Finish("0")
		w.runDue()
		w.host.want("stackyard/app success", "stackyard/app/hammer-unit-tests success")
		w.ada.Patch(app, fields{"provider_settings": fields{"use_step_key_as_commit_status": true}}).Want(http.StatusOK)
		w.build(fields{"pull_request_id": 7})
		w.runDue()
		w.host.want("stackyard/app/pr pending", "stackyard/app/pr/unit pending")
		w.ada.Patch(app, fields{"provider_settings": fields{"publish_commit_status": false}}).Want(http.StatusOK)
		w.build(nil)
		w.runDue()
		w.host.want()
	})
}

func TestStatuses_ThatNotifyAsksFor(t *testing.T) {
	steps := `
notify:
  - github_commit_status: {context: ci/all}
  - github_commit_status: {context: ci/release}
    if: build.branch == "release"
steps:
  - command: make
    parallelism: 2
    label: Make
    notify: [{github_commit_status: {context: ci/make}}, github_check]
`
	eachWorld(t, steps, fields{"publish_commit_status": false}, func(t *testing.T, w *world) {
		b := w.build(nil)
		w.runDue()
		w.host.want("ci/all pending", "ci/make pending", "stackyard/app/make-1 pending", "stackyard/app/make-2 pending")
		w.start(b, 0).Finish("0")
		w.runDue()
		w.host.take()
		w.start(b, 1).Finish("1")
		w.runDue()
		w.host.want("ci/all failure", "ci/make failure", "stackyard/app/make-2 failure")
	})
}

func TestStatuses_OfBlockedBuilds(t *testing.T) {
	eachWorld(t, "steps: [{command: make}, {block: Deploy}]", nil, func(t *testing.T, w *world) {
		w.start(w.build(nil), 0).Finish("0")
		w.runDue()
		if got := w.host.take(); len(got) != 1 || got[0].state != "success" || got[0].description != "Build #1 is blocked" {
			t.Errorf("set %q", got)
		}
		w.ada.Patch(app, fields{"provider_settings": fields{"publish_blocked_as_pending": true}}).Want(http.StatusOK)
		b := w.build(nil)
		w.start(b, 0).Finish("0")
		w.runDue()
		w.host.want("stackyard/app pending")
		w.ada.Put(app+"/builds/2/cancel", nil).Want(http.StatusOK)
		w.runDue()
		w.host.want("stackyard/app error")
	})
}

func TestStatuses_OfForksHaveNoContextsOfTheirOwn(t *testing.T) {
	eachWorld(t, oneStep, nil, func(t *testing.T, w *world) {
		b := w.build(fields{"pull_request_id": 7, "pull_request_repository": "https://git.acme.test/eve/app.git"})
		job := w.start(b, 0)
		job.Post(job.Path("/pipelines"), fields{"uuid": core.NewID(), "pipeline": fields{
			"steps":  []any{fields{"command": "x", "notify": []any{fields{"github_commit_status": fields{"context": "required/review"}}}}},
			"notify": []any{fields{"github_commit_status": fields{"context": "required/audit"}}},
		}}).Want(http.StatusOK)
		job.Finish("0")
		w.runDue()
		w.host.want("stackyard/app pending")
	})
}
