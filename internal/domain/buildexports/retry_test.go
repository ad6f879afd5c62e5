package buildexports_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

func everything(string) bool { return true }

func TestRetry_ContinuesWhenTheBucketWorksAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := []string{w.build("a\n"), w.build("b\n"), w.build("c\n")}
		w.setRefused(everything)
		for range 5 {
			if err := w.try(6 * time.Minute); err == nil || !strings.Contains(err.Error(), "denies access") {
				t.Fatalf("got error %v while the bucket refuses files", err)
			}
		}
		w.wantPending(3)
		w.setRefused(nil)
		w.pass(time.Hour)
		w.wantPending(0)
		for _, id := range ids {
			if !slices.Contains(w.keys("builds"), w.folder(id)+"/manifest.json") {
				t.Errorf("the build %s was not exported", id)
			}
		}
		written := w.written()
		slices.Sort(written)
		if each := slices.Compact(slices.Clone(written)); len(each) != 15 || len(written) != 15 {
			t.Errorf("%d files written, %d different ones, want 15", len(written), len(each))
		}
	})
}

func TestRetry_SendsOnlyLogsThatAreMissing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.create("a", "b")
		sent, missing := b.String("jobs.0.id"), b.String("jobs.1.id")
		w.run(sent, "a\n", "0")
		w.run(missing, "b\n", "0")
		w.setRefused(func(path string) bool { return strings.Contains(path, missing) })
		if err := w.try(6 * time.Minute); err == nil {
			t.Fatal("no error")
		}
		if slices.ContainsFunc(w.written(), func(path string) bool { return strings.HasSuffix(path, "manifest.json") }) {
			t.Error("the manifest of an incomplete export was written")
		}
		w.setRefused(nil)
		w.pass(time.Hour)
		for _, path := range w.written() {
			if strings.Contains(path, sent) {
				t.Errorf("%s was sent again", path)
			}
		}
		files := decode(t, w.read("builds", w.folder(b.String("id"))+"/manifest.json")).(map[string]any)["files"].([]any)
		if len(files) != 5 {
			t.Errorf("the manifest lists %v", files)
		}
	})
}

func TestRetry_OfOneBuildDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		bad := w.build("bad\n")
		w.Clock.Advance(time.Second)
		good := w.build("good\n")
		w.setRefused(func(path string) bool { return strings.Contains(path, bad) })
		for range 3 {
			w.try(6 * time.Minute)
		}
		if !slices.Contains(w.keys("builds"), w.folder(good)+"/manifest.json") {
			t.Error("the other build was not exported")
		}
		w.wantPending(1)
	})
}

func TestRetry_OfOneOrganizationDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cy := w.As(t, servertest.Cy)
		cy.Put("/v2/organizations/rival/pipeline-settings/build-export", map[string]any{"location": "other", "strategy_id": "s3"}).Want(http.StatusOK)
		cy.Post("/v2/organizations/rival/pipelines", map[string]any{
			"name": "Web", "cluster_id": servertest.RivalClusterID, "repository": "https://git.example.test/web.git", "configuration": "steps: [{command: make}]",
		}).Want(http.StatusCreated)
		w.build("a\n")
		cy.Post("/v2/organizations/rival/pipelines/web/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		cy.Put("/v2/organizations/rival/pipelines/web/builds/1/cancel", nil).Want(http.StatusOK)
		w.setRefused(func(path string) bool { return strings.HasPrefix(path, "/builds/") })
		if err := w.try(6 * time.Minute); err == nil {
			t.Error("no error")
		}
		keys := w.keys("other")
		if len(keys) != 4 || !strings.HasPrefix(keys[0], "stackyard-exports/rival/") {
			t.Errorf("the other organization has %q", keys)
		}
		if keys := w.keys("builds"); len(keys) > 0 {
			t.Errorf("files of a bucket that refuses them: %q", keys)
		}
	})
}

func TestRetry_EndsAfterAWeek(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build("a\n")
		w.setRefused(everything)
		for range 6 {
			w.try(24 * time.Hour)
		}
		w.wantPending(1)
		w.try(25 * time.Hour)
		w.wantPending(0)
		if err := w.try(time.Hour); err != nil {
			t.Errorf("got error %v afterwards", err)
		}
	})
}

func TestExport_IsContinuedByAnotherReplica(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.build("a\n")
		w.Clock.Advance(6 * time.Minute)
		replica := w.Replica(t) // the first server has not processed the event, and is gone
		if err := replica.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(w.keys("builds"), w.folder(id)+"/manifest.json") {
			t.Error("the build was not exported")
		}
		n := len(w.written())
		w.pass(time.Hour)
		if again := w.written(); n != 5 || len(again) > 0 {
			t.Errorf("%d files written, and %d again", n, len(again))
		}
	})
}

// A server hangs while it writes a file, another one takes over, and then the first continues.
func TestExport_IsTakenOverFromAServerThatHangs(t *testing.T) {
	for _, file := range []string{"build.json", "jobs.jsonl", ".log", "manifest.json"} {
		t.Run(file, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				id := w.build("a\n")
				held, release := w.holdNext(func(path string) bool { return strings.HasSuffix(path, file) })
				defer release()
				w.Clock.Advance(6 * time.Minute)
				ended := make(chan error)
				go func() { ended <- w.RunDue(t.Context()) }()
				<-held
				w.Clock.Advance(time.Hour) // the lease of the task has ended
				if err := w.Replica(t).RunDue(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.wantPending(0)
				complete := w.keys("builds")
				if len(complete) != 5 || !slices.Contains(complete, w.folder(id)+"/manifest.json") {
					t.Errorf("keys %q", complete)
				}
				release()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if keys := w.keys("builds"); !slices.Equal(keys, complete) {
					t.Errorf("keys %q afterwards", keys)
				}
				w.wantPending(0)
				w.written()
				w.pass(24 * time.Hour)
				if again := w.written(); len(again) > 0 {
					t.Errorf("%q were written again", again)
				}
			})
		})
	}
}

func TestExport_StopsWithTheSetting(t *testing.T) {
	for name, stop := range map[string]func(w *world){
		"cleared":         func(w *world) { w.ada.Delete(export).Want(http.StatusOK) },
		"not in the plan": func(w *world) { w.Apply("organizations: [{slug: acme, features: {build_exports: false}}]") },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.build("a\n")
				w.pass(0)
				w.wantPending(1)
				stop(w)
				w.build("b\n")
				w.pass(time.Hour)
				w.wantPending(0)
				if written := w.written(); len(written) > 0 {
					t.Errorf("%q were written", written)
				}
			})
		})
	}
}

func TestExport_GoesWhereTheSettingSays(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build("a\n")
		w.setRefused(everything)
		w.try(6 * time.Minute)
		w.setRefused(nil)
		w.exportTo("other")
		w.pass(time.Hour)
		if builds, other := w.keys("builds"), w.keys("other"); len(builds) != 0 || len(other) != 5 {
			t.Errorf("builds has %q, other has %q", builds, other)
		}
	})
}

func TestExport_OfManyBuildsRunsInBatches(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const n = 40
		for range n {
			w.ada.Put(fmt.Sprintf("%s/%s/cancel", hello, w.create("make").String("number")), nil).Want(http.StatusOK)
		}
		w.pass(6 * time.Minute)
		w.wantPending(0)
		if keys := w.keys("builds"); len(keys) != 4*n {
			t.Errorf("%d files, want %d", len(keys), 4*n)
		}
	})
}

func TestExport_HasNoEventsWrittenUnlessEnabled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Delete(export).Want(http.StatusOK)
		w.build("a\n")
		var n int
		err := w.DB.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT COUNT(*) FROM events`).Scan(&n) })
		if err != nil || n != 0 {
			t.Errorf("%d events, error %v", n, err)
		}
	})
}
