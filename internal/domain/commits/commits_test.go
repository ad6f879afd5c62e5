package commits_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/gitremote/gitremotetest"
)

type fields = map[string]any

// A world is a server whose pipeline hello has a real repository, as Ada sees it.
type world struct {
	*servertest.Server
	t    testing.TB
	ada  *servertest.Client
	repo *gitremotetest.Repository
	tip  string // the commit of main
}

func each(t *testing.T, fn func(t *testing.T, w *world), change ...func(*server.Parts)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d, append([]func(*server.Parts){func(p *server.Parts) { p.ResolveCommits = time.Hour }}, change...)...)
		s.Apply(servertest.World)
		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), repo: gitremotetest.New(t)}
		w.tip = w.repo.Commit("README", "one", "Pour tea")
		w.ada.Patch(servertest.HelloPath, fields{"repository": w.repo.URL}).Want(http.StatusOK)
		fn(t, w)
	})
}

func (w *world) build(body fields) *servertest.Response {
	w.t.Helper()
	if body["branch"] == nil {
		body["branch"] = "main"
	}
	return w.ada.Post(servertest.HelloPath+"/builds", body).Want(http.StatusCreated)
}

func (w *world) runDue() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// want checks a build after its task has run.
func (w *world) want(made *servertest.Response, want fields) {
	w.t.Helper()
	w.runDue()
	servertest.WantAt(w.t, w.ada.Get(made.String("url")).Want(http.StatusOK), want)
}

func TestResolve_FillsInTheCommitOfABranch(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		made := w.build(fields{"commit": "HEAD"})
		servertest.WantAt(t, made, fields{"commit": w.tip, "message": "Pour tea", "author.name": "Ada"}) // who created the build
		w.wantJob(made, w.tip, "Pour tea")
	})
}

func TestResolve_IsKnownToConditions(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(servertest.HelloPath, fields{"configuration": "steps: [{command: make, if: build.message =~ /tea/}, {command: brew, if: build.message =~ /coffee/}]"}).Want(http.StatusOK)
		servertest.WantAt(t, w.build(fields{"commit": "HEAD"}), fields{"jobs.0.state": "scheduled", "jobs.1.state": "broken"})
	})
}

// A host that does not answer soon is asked by a task, and builds that follow do not wait for it.
func TestResolve_DoesNotWaitLong(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		host := w.slowHost()
		first := w.build(fields{"commit": "HEAD"})
		second := w.build(fields{"commit": "HEAD"})
		if asked := host.asked.Load(); asked > 1 {
			t.Errorf("the host was asked %d times", asked)
		}
		servertest.WantAt(t, first, fields{"commit": "HEAD", "message": nil})
		host.slow.Store(false)
		w.want(first, fields{"commit": w.tip, "message": "Pour tea"})
		w.want(second, fields{"commit": w.tip})
		w.wantJob(first, w.tip, "Pour tea")
	}, waitShort)
}

func waitShort(p *server.Parts) { p.ResolveCommits = 50 * time.Millisecond }

// A slowHost serves the repository of a world, but does not answer while it is slow.
type slowHost struct {
	slow  atomic.Bool
	asked atomic.Int32
}

func (w *world) slowHost() *slowHost {
	h := &slowHost{}
	h.slow.Store(true)
	target, err := url.Parse(w.repo.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		if h.slow.Load() {
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(host.Close)
	w.ada.Patch(servertest.HelloPath, fields{"repository": host.URL + target.Path}).Want(http.StatusOK)
	return h
}

// wantJob checks what an agent gets with the first job of a build.
func (w *world) wantJob(b *servertest.Response, commit, message string) {
	w.t.Helper()
	job := w.Register(w.t, fields{"name": "a"}).Acquire(b.String("jobs.0.id"))
	servertest.WantEqual(w.t, "commit", job.Env["SERVICE_COMMIT"], commit)
	servertest.WantEqual(w.t, "message", job.Env["SERVICE_MESSAGE"], message)
}

func TestResolve_KeepsWhatWasGiven(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.want(w.build(fields{"commit": "HEAD", "message": "Mine", "author": fields{"name": "Ada", "email": "ada@acme.test"}}), fields{"commit": w.tip, "message": "Mine", "author.name": "Ada"})
		w.want(w.build(fields{"commit": strings.Repeat("a", 40)}), fields{"commit": strings.Repeat("a", 40), "message": nil})
		w.want(w.build(fields{"commit": "v1"}), fields{"commit": "v1"})
		w.want(w.build(fields{"commit": w.tip[:12]}), fields{"commit": w.tip, "message": "Pour tea"})
		w.want(w.build(fields{"commit": "0123456"}), fields{"commit": "0123456", "message": nil})
		w.want(w.build(fields{"commit": "HEAD", "pull_request_id": 7}), fields{"commit": "HEAD"})
		w.repo.Git("tag", "-a", "v1", "-m", "First")
		w.want(w.build(fields{"commit": "HEAD", "branch": "v1"}), fields{"commit": w.tip})
		w.want(w.build(fields{"commit": "HEAD", "branch": "none"}), fields{"commit": "HEAD", "message": nil})
	})
}

func TestResolve_LeavesTheBuildToAnAgentThatHasIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		host := w.slowHost()
		made := w.build(fields{"commit": "HEAD"})
		host.slow.Store(false)
		agent := w.Register(t, fields{"name": "a"})
		job := agent.Acquire(made.String("jobs.0.id"))
		servertest.WantEqual(t, "commit", job.Env["SERVICE_COMMIT"], "HEAD")
		w.want(made, fields{"commit": "HEAD"})
		job.Start().Post(job.Path("/data/set"), fields{"key": "buildkite:git:commit", "value": "commit " + strings.Repeat("b", 40) + "\n\n    Boil\n"}).Want(http.StatusOK)
		w.want(made, fields{"commit": strings.Repeat("b", 40), "message": "Boil"})
	}, waitShort)
}

func TestResolve_SendsTheCredentialsOfTheRepository(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.repo.User, w.repo.Password = "robot", "hunter2"
		w.want(w.build(fields{"commit": "HEAD"}), fields{"commit": "HEAD"})
		w.ada.Patch(servertest.HelloPath, fields{"repository": strings.Replace(w.repo.URL, "://", "://robot:hunter2@", 1)}).Want(http.StatusOK)
		w.want(w.build(fields{"commit": "HEAD"}), fields{"commit": "HEAD"}) // it was asked a moment ago
		w.Clock.Advance(time.Minute)
		w.want(w.build(fields{"commit": "HEAD"}), fields{"commit": w.tip})
	})
}

func TestResolve_AsksAHostThatDoesNotAnswerOnceAMinute(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var asked atomic.Int32
		host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			panic(http.ErrAbortHandler)
		}))
		defer host.Close()
		ask := func(path string, want int32) {
			t.Helper()
			w.ada.Patch(servertest.HelloPath, fields{"repository": host.URL + path}).Want(http.StatusOK)
			w.want(w.build(fields{"commit": "HEAD"}), fields{"commit": "HEAD"})
			servertest.WantEqual(t, "requests", asked.Load(), want)
		}
		ask("/a.git", 1)
		ask("/a.git", 1)
		ask("/b.git", 1)
		w.Clock.Advance(time.Minute)
		ask("/b.git", 2)
	})
}

func TestResolve_DelaysNoBuildWhenTheHostCannotBeReached(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, repository := range []string{w.repo.URL /* a private address */, "http://127.0.0.1:1/a.git", "/srv/git/app.git", "git@git.example.test:acme/app.git", "file:///etc"} {
			w.ada.Patch(servertest.HelloPath, fields{"repository": repository}).Want(http.StatusOK)
			w.want(w.build(fields{"commit": "HEAD"}), fields{"commit": "HEAD", "state": "scheduled"})
		}
	}, func(p *server.Parts) { p.OutboundAllow = nil })
}
