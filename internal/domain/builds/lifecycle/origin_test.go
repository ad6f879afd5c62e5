package lifecycle_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// draft returns a draft of a build of a pipeline for an origin.
func (w *world) draft(slug, origin string) (*lifecycle.Draft, error) {
	w.T.Helper()
	var p *pipelines.Pipeline
	w.WantNoError(w.DB.Read(w.T.Context(), func(q *db.Q) (err error) {
		p, err = pipelines.BySlug(q, pipelines.System(w.OrgID), slug)
		return err
	}))
	return w.Service.Draft(w.T.Context(), p, lifecycle.Creation{Commit: "HEAD", Branch: "main", Source: builds.FromWebhook, Origin: origin})
}

func TestCreateTx_CreatesOneBuildPerOriginAndPipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("other", nil, "command: x")
		var mu sync.Mutex
		created := map[string]int{} // by slug and origin
		numbers := map[string]bool{}
		var all sync.WaitGroup
		for i := range 12 {
			slug, origin := []string{"hello", "other"}[i%2], []string{"webhook:1", "webhook:2"}[i/2%2]
			d, err := w.draft(slug, origin)
			w.WantNoError(err)
			all.Go(func() {
				var b *builds.Build
				var isNew bool
				err := w.DB.Write(t.Context(), func(q *db.Q) (err error) {
					b, isNew, err = d.CreateTx(q)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if isNew {
					created[slug+" "+origin]++
				}
				numbers[fmt.Sprint(slug, " ", origin, " ", b.ID)] = true
			})
		}
		all.Wait()
		servertest.WantEqual(t, "created", fmt.Sprint(created), "map[hello webhook:1:1 hello webhook:2:1 other webhook:1:1 other webhook:2:1]")
		servertest.WantEqual(t, "returned builds", len(numbers), 4)
		servertest.WantEqual(t, "builds", w.Ada.Get(acme+"/builds").Want(http.StatusOK).Len(""), 4)
		w.WantCounts()
	})
}

func TestCreateTx_IsUndoneWithTheTransaction(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		d, err := w.draft("hello", "schedule:1")
		w.WantNoError(err)
		failure := errors.New("the caller failed")
		err = w.DB.Write(t.Context(), func(q *db.Q) error {
			if _, created, err := d.CreateTx(q); err != nil || !created {
				t.Errorf("created: %v, error: %v", created, err)
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Fatal(err)
		}
		servertest.WantEqual(t, "builds", w.Ada.Get(hello).Want(http.StatusOK).Len(""), 0)
		w.WantNoError(w.DB.Write(t.Context(), func(q *db.Q) error {
			b, created, err := d.CreateTx(q)
			if err == nil && (!created || b.Number != 1) {
				t.Errorf("build %d, created: %v", b.Number, created)
			}
			return err
		}))
		w.WantStates(1, "scheduled", w.States(1))
	})
}

func TestDraft_RefusesLongOrigins(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if _, err := w.draft("hello", strings.Repeat("x", 513)); core.KindOf(err) != core.Unprocessable {
			t.Errorf("got error %v", err)
		}
	})
}
