package builds_test

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/platform/db"
)

const annotationsPath = hello + "/1/annotations"

func TestAnnotations_AreOneForEachContext(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
		first := w.ada.Post(annotationsPath, map[string]any{"body": "*one*"}).Want(http.StatusCreated)
		wantAt(t, first, map[string]any{
			"context": "default", "style": nil, "scope": "build", "job_id": nil, "priority": 3,
			"body_html": "<p><em>one</em></p>\n", "created_at": w.now(), "updated_at": w.now(),
		})
		again := w.ada.Post(annotationsPath, map[string]any{"body": " and two", "append": true, "style": "warning", "priority": 7}).Want(http.StatusCreated)
		wantAt(t, again, map[string]any{"id": first.At("id"), "body_html": "<p><em>one</em> and two</p>\n", "style": "warning", "priority": 7})
		replaced := w.ada.Post(annotationsPath, map[string]any{"body": "three"}).Want(http.StatusCreated)
		wantAt(t, replaced, map[string]any{"id": first.At("id"), "body_html": "<p>three</p>\n", "style": "warning", "priority": 7})
		other := w.ada.Post(annotationsPath, map[string]any{"body": "x", "context": "other"}).Want(http.StatusCreated)
		if other.String("id") == first.String("id") {
			t.Error("another context has the same annotation")
		}
	})
}

func TestAnnotations_AppendedAtTheSameTimeAreAllThere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { w.ada.Post(annotationsPath, map[string]any{"body": "x", "append": true}) })
		}
		wg.Wait()
		wantAt(t, w.ada.Get(annotationsPath), map[string]any{"0.body_html": "<p>" + strings.Repeat("x", 20) + "</p>\n"})
	})
}

func TestAnnotations_RefuseWhatIsWrong(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
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
	each(t, func(t *testing.T, w *world) {
		id := w.create(nil).String("jobs.0.id")
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
			wantEqual(t, path, strings.Join(got, " "), want)
		}
		wantAt(t, w.ada.Get(annotationsPath+"?scope=job"), map[string]any{"0.scope": "job", "0.job_id": id})
		if w.ada.Get(annotationsPath + "?omit_body=true").Has("0.body_html") {
			t.Error("there is a body")
		}
	})
}

func TestAnnotations_CanBeDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.create(nil).String("jobs.0.id")
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
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
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
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
		w.ada.Post(annotationsPath, map[string]any{"body": "*one*"}).Want(http.StatusCreated)
		err := w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE annotations SET html = '<p>stored</p>'`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		wantAt(t, w.ada.Get(annotationsPath), map[string]any{"0.body_html": "<p>stored</p>"})
		w.ada.Post(annotationsPath, map[string]any{"body": "two"}).Want(http.StatusCreated)
		wantAt(t, w.ada.Get(annotationsPath), map[string]any{"0.body_html": "<p>two</p>\n"})
	})
}

// A table has a cell for each column in each row: 80 KB of text are a hundred million of them.
func TestAnnotations_ThatAreTooComplexAreShownAsText(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
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
	each(t, func(t *testing.T, w *world) {
		build := w.create(nil).String("id")
		const pieces, size = 100, 2 << 10
		work, last := 0, 0 // work is how many bytes were rendered
		for range pieces {
			piece := strings.Repeat("a ", size/2-1) + "\n\n"
			if _, err := w.annotations.Annotate(t.Context(), w.orgID, build, "", annotations.Change{Body: &piece, Append: true}); err != nil {
				t.Fatal(err)
			}
			rendered, err := strconv.Atoi(w.rowsOf(`SELECT rendered FROM annotations`)[0])
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
		w.pass(5 * time.Second)
		html := w.ada.Get(annotationsPath).String("0.body_html")
		wantEqual(t, "rendered paragraphs", strings.Count(html, "<p>"), pieces)
	})
}
