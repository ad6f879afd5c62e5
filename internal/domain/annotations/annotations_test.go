package annotations_test

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	acme  = "/v2/organizations/acme"
	hello = acme + "/pipelines/hello/builds"

	annotationsPath = hello + "/1/annotations"
)

// A fixture is a server with the organization acme, as its administrator Ada sees it.
type fixture struct {
	*servertest.Server
	t           testing.TB
	ada         *servertest.Client
	orgID       string
	annotations *annotations.Service
}

// each runs a test with a fresh fixture on each engine.
func each(t *testing.T, fn func(t *testing.T, w *fixture)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := &fixture{Server: s, t: t, ada: s.As(t, servertest.Ada), orgID: s.OrganizationID(t, "acme")}
		w.annotations = annotations.New(s.DB, s.Builds().Reader, s.Clock.Now)
		fn(t, w)
	})
}

// create creates a build of the pipeline hello.
func (w *fixture) create() *servertest.Response {
	w.t.Helper()
	return w.ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
}

func TestAnnotations_AreOneForEachContext(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.create()
		first := w.ada.Post(annotationsPath, map[string]any{"body": "*one*"}).Want(http.StatusCreated)
		servertest.WantAt(t, first, map[string]any{
			"context": "default", "style": nil, "scope": "build", "job_id": nil, "priority": 3,
			"body_html": "<p><em>one</em></p>\n", "created_at": w.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "updated_at": w.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		})
		again := w.ada.Post(annotationsPath, map[string]any{"body": " and two", "append": true, "style": "warning", "priority": 7}).Want(http.StatusCreated)
		servertest.WantAt(t, again, map[string]any{"id": first.At("id"), "body_html": "<p><em>one</em> and two</p>\n", "style": "warning", "priority": 7})
		replaced := w.ada.Post(annotationsPath, map[string]any{"body": "three"}).Want(http.StatusCreated)
		servertest.WantAt(t, replaced, map[string]any{"id": first.At("id"), "body_html": "<p>three</p>\n", "style": "warning", "priority": 7})
		other := w.ada.Post(annotationsPath, map[string]any{"body": "x", "context": "other"}).Want(http.StatusCreated)
		if other.String("id") == first.String("id") {
			t.Error("another context has the same annotation")
		}
	})
}

func TestAnnotations_AppendedAtTheSameTimeAreAllThere(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.create()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { w.ada.Post(annotationsPath, map[string]any{"body": "x", "append": true}) })
		}
		wg.Wait()
		servertest.WantAt(t, w.ada.Get(annotationsPath), map[string]any{"0.body_html": "<p>" + strings.Repeat("x", 20) + "</p>\n"})
	})
}

func TestAnnotations_RefuseInvalidValues(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.create()
		w.ada.Post(annotationsPath, map[string]any{}).WantFieldError("body", "is required")
		w.ada.Post(annotationsPath, map[string]any{"body": "x", "style": "loud"}).WantFieldError("style", "must be one of")
		w.ada.Post(annotationsPath, map[string]any{"body": "x", "priority": 0}).WantFieldError("priority", "from 1 to 10")
		w.ada.Post(annotationsPath, map[string]any{"body": "x", "priority": 11}).WantFieldError("priority", "from 1 to 10")
		w.ada.Post(annotationsPath, map[string]any{"body": "x", "context": strings.Repeat("c", 101)}).WantFieldError("context", "at most 100")
		w.ada.Post(annotationsPath, map[string]any{"body": strings.Repeat("x", 1<<20+1)}).WantFieldError("body", "at most 1048576 bytes")
		w.ada.Get(annotationsPath+"?scope=step").WantMessage(http.StatusBadRequest, "scope must be build, job or all")
	})
}

func TestAnnotations_ListByScopeThoseWithAHighPriorityFirst(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		id := w.create().String("jobs.0.id")
		w.ada.Post(annotationsPath, map[string]any{"body": "low", "context": "low", "priority": 1}).Want(http.StatusCreated)
		w.ada.Post(annotationsPath, map[string]any{"body": "high", "context": "high", "priority": 10}).Want(http.StatusCreated)
		w.ada.Post(acme+"/jobs/"+id+"/annotations", map[string]any{"body": "of the job", "context": "low"}).Want(http.StatusCreated)
		for path, want := range map[string]string{
			annotationsPath:                           "high low",
			annotationsPath + "?scope=job":            "low",
			annotationsPath + "?scope=all":            "high low low",
			annotationsPath + "?scope=all&per_page=1": "high",
			acme + "/jobs/" + id + "/annotations":     "low",
			hello + "/1/jobs/" + id + "/annotations":  "low",
		} {
			var list []struct{ Context string }
			w.ada.Get(path).Want(http.StatusOK).JSON(&list)
			var got []string
			for _, a := range list {
				got = append(got, a.Context)
			}
			servertest.WantEqual(t, path, strings.Join(got, " "), want)
		}
		servertest.WantAt(t, w.ada.Get(annotationsPath+"?scope=job"), map[string]any{"0.scope": "job", "0.job_id": id})
		if w.ada.Get(annotationsPath + "?omit_body=true").Has("0.body_html") {
			t.Error("there is a body")
		}
	})
}

func TestAnnotations_CanBeDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		id := w.create().String("jobs.0.id")
		ofBuild := w.ada.Post(annotationsPath, map[string]any{"body": "x"}).String("id")
		ofJob := w.ada.Post(acme+"/jobs/"+id+"/annotations", map[string]any{"body": "x"}).String("id")
		w.ada.Delete(acme+"/jobs/"+id+"/annotations/"+ofBuild).WantMessage(http.StatusNotFound, "No annotation found")
		w.ada.Delete(acme + "/jobs/" + id + "/annotations/" + ofJob).Want(http.StatusNoContent)
		w.ada.Delete(annotationsPath + "/" + ofBuild).Want(http.StatusNoContent)
		w.ada.Delete(annotationsPath+"/"+ofBuild).WantMessage(http.StatusNotFound, "No annotation found")
		w.As(t, servertest.Cy).Delete(annotationsPath + "/" + ofBuild).Want(http.StatusNotFound)
	})
}

// What people write is shown to others.
func TestAnnotations_ShowNothingThatRuns(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.create()
		for _, body := range []string{
			"<script>alert(1)</script>",
			`<img src="x" onerror="alert(1)">`,
			"[x](javascript:alert(1))",
			`<a href="data:text/html,x">x</a>`,
			`<iframe src="https://evil.test"></iframe>`,
			`<style>body{display:none}</style>`,
		} {
			html := strings.ToLower(w.ada.Post(annotationsPath, map[string]any{"body": body}).Want(http.StatusCreated).String("body_html"))
			for _, bad := range []string{"script", "onerror", "data:", "iframe", "<style"} {
				if strings.Contains(html, bad) {
					t.Errorf("%s is shown as %s", body, html)
				}
			}
		}
	})
}

func TestAnnotations_AreNotRenderedWhenTheyAreRead(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.create()
		w.ada.Post(annotationsPath, map[string]any{"body": "*one*"}).Want(http.StatusCreated)
		err := w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE annotations SET html = '<p>stored</p>'`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		servertest.WantAt(t, w.ada.Get(annotationsPath), map[string]any{"0.body_html": "<p>stored</p>"})
		w.ada.Post(annotationsPath, map[string]any{"body": "two"}).Want(http.StatusCreated)
		servertest.WantAt(t, w.ada.Get(annotationsPath), map[string]any{"0.body_html": "<p>two</p>\n"})
	})
}

// A table has a cell for each column in each row: 80 KB of text are a hundred million of them.
func TestAnnotations_ThatAreTooComplexAreShownAsText(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.create()
		table := strings.Repeat("|a", 5000) + "\n" + strings.Repeat("|-", 5000) + "\n" + strings.Repeat("|x\n", 20_000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.ada.Post(annotationsPath, map[string]any{"body": table}).Want(http.StatusCreated)
		html := w.ada.Get(annotationsPath).Want(http.StatusOK).String("0.body_html")
		runtime.ReadMemStats(&after)
		if !strings.Contains(html, "too complex") || !strings.Contains(html, "|x\n") {
			t.Errorf("it is shown as %.200q", html)
		}
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 500 {
			t.Errorf("writing and reading it allocates %d MiB", used)
		}
	})
}

func TestAnnotations_AppendedToAreNotRenderedEachTime(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		build := w.create().String("id")
		const pieces, size = 100, 2 << 10
		work, last := 0, 0 // work is how many bytes were rendered
		for range pieces {
			piece := strings.Repeat("a ", size/2-1) + "\n\n"
			if _, err := w.annotations.Annotate(t.Context(), w.orgID, build, "", annotations.Change{Body: &piece, Append: true}); err != nil {
				t.Fatal(err)
			}
			var rendered int
			err := w.DB.Read(t.Context(), func(q *db.Q) error {
				return q.QueryRow(`SELECT rendered FROM annotations`).Scan(&rendered)
			})
			if err != nil {
				t.Fatal(err)
			}
			if rendered > last {
				work, last = work+rendered, rendered
			}
		}
		if most := 8 * pieces * size; work > most {
			t.Errorf("%d bytes were rendered for a body of %d", work, pieces*size)
		}
		w.Clock.Advance(5 * time.Second)
		if err := w.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		html := w.ada.Get(annotationsPath).String("0.body_html")
		servertest.WantEqual(t, "rendered paragraphs", strings.Count(html, "<p>"), pieces)
	})
}

func TestAnnotations_LinkToArtifacts(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		files := artifacts.New(w.DB, w.Builds().Reader, w.Clock.Now)
		added, err := files.Add(t.Context(), w.orgID, job, core.NewID(), []artifacts.Artifact{{Path: "log/a&b.txt", Location: "https://files.test/a", Destination: "s3://bucket"}})
		if err != nil {
			t.Fatal(err)
		}
		id := added[0].ID
		if err := files.SetStates(t.Context(), w.orgID, job, map[string]artifacts.State{id: artifacts.StateFinished}); err != nil {
			t.Fatal(err)
		}
		html := w.ada.Post(annotationsPath, map[string]any{"body": `<a href="artifact://log/a&amp;b.txt">log</a> [gone](artifact://gone.txt)`}).String("body_html")
		if !strings.Contains(html, `href="`+w.URL+hello+"/1/jobs/"+job+"/artifacts/"+id+`/download"`) || !strings.Contains(html, `href="#"`) {
			t.Errorf("got %s", html)
		}
	})
}
