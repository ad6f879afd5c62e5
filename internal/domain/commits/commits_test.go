package commits_test

import (
	"net/http"
	"net/http/httptest"
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
		s := servertest.Start(t, d, append(change, func(p *server.Parts) { p.ResolveCommits = true })...)
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
		servertest.WantAt(t, made, fields{"commit": "HEAD", "message": nil})               // the host is not asked yet
		w.want(made, fields{"commit": w.tip, "message": "Pour tea", "author.name": "Ada"}) // who created the build

		// An agent gets it.
		agent := w.Register(t, fields{"name": "a"})
		job := agent.Acquire(made.String("jobs.0.id"))
		servertest.WantEqual(t, "commit", job.Env["SERVICE_COMMIT"], w.tip)
		servertest.WantEqual(t, "message", job.Env["SERVICE_MESSAGE"], "Pour tea")
	})
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
		made := w.build(fields{"commit": "HEAD"})
		agent := w.Register(t, fields{"name": "a"})
		job := agent.Acquire(made.String("jobs.0.id"))
		servertest.WantEqual(t, "commit", job.Env["SERVICE_COMMIT"], "HEAD")
		w.want(made, fields{"commit": "HEAD"})
		job.Start().Post(job.Path("/data/set"), fields{"key": "buildkite:git:commit", "value": "commit " + strings.Repeat("b", 40) + "\n\n    Boil\n"}).Want(http.StatusOK)
		w.want(made, fields{"commit": strings.Repeat("b", 40), "message": "Boil"})
	})
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
