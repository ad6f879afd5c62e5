package retention_test

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/domain/builds/retention"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const day = 24 * time.Hour

// keep has acme keep finished builds for some days.
func (w *world) keep(days int) {
	w.T.Helper()
	w.Apply(fmt.Sprintf(`organizations: [{slug: acme, limits: {build_retention_days: %d}}]`, days))
}

// removeOld removes one batch of old builds.
func (w *world) removeOld() (more bool) {
	w.T.Helper()
	w.WantNoError(w.DB.Write(w.T.Context(), func(q *db.Q) (err error) {
		more, err = retention.RemoveOld(q, w.Clock.Now())
		return err
	}))
	return more
}

// counts returns how many rows there are in each table that builds fill.
func (w *world) counts() map[string]int {
	w.T.Helper()
	names := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if w.DB.Engine() == db.PostgreSQL {
		names = `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`
	}
	counts := map[string]int{}
	w.WantNoError(w.DB.Read(w.T.Context(), func(q *db.Q) error {
		tables, err := db.All(q, func(scan db.Scan) (name string, err error) { return name, scan(&name) }, names)
		if err != nil {
			return err
		}
		for _, table := range tables {
			var n int
			if err := q.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&n); err != nil {
				return err
			}
			counts[table] = n
		}
		return nil
	}))
	for _, table := range []string{"tasks", "rate_shares", "rate_windows"} {
		delete(counts, table)
	}
	delete(counts, "build_numbers")   // numbers go on
	delete(counts, "pipeline_counts") // so do counts
	delete(counts, "stored_bytes")    // and what is stored
	delete(counts, "audit_events")    // the trail stays
	return counts
}

func TestRetention_RemovesABuildWithAllItOwns(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.keep(30)
		w.Steps("{command: first, key: first}", "{command: 'echo {{matrix}}', label: many, matrix: [a, b], depends_on: first}", "{block: go}")
		before := w.counts()
		build := w.Create(map[string]any{"meta_data": map[string]any{"a": "b"}})
		w.Run(1, "first", 0)
		w.own(build.String("id"), w.Job(1, "first"))
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		for _, table := range []string{
			"builds", "build_details", "build_meta_data", "steps", "step_details", "step_dependencies", "jobs", "job_details", "annotations", "artifacts",
		} {
			if w.counts()[table] == before[table] {
				t.Errorf("the build has nothing in %s", table)
			}
		}
		w.Pass(30 * day)
		w.Build(1)
		w.Pass(time.Hour) // builds are looked for every hour
		if after := w.counts(); !maps.Equal(before, after) {
			t.Errorf("there are rows in %v, want %v", after, before)
		}
		w.Ada.Get(hello + "/1").Want(http.StatusNotFound)
		servertest.WantEqual(t, "the next build", w.Create(nil).String("number"), "2")
	})
}

// own gives a build what agents will.
func (w *world) own(buildID, jobID string) {
	w.T.Helper()
	w.WantNoError(w.DB.Write(w.T.Context(), func(q *db.Q) error {
		for _, job := range []any{nil, jobID} {
			_, err := q.Exec(`
				INSERT INTO annotations (id, organization_id, build_id, job_id, context, priority, body, created_at, updated_at)
				VALUES ($1, $2, $3, $4, 'default', 3, 'text', 0, 0)`, core.NewID(), w.OrgID, buildID, job)
			if err != nil {
				return err
			}
		}
		_, err := q.Exec(`
			INSERT INTO artifacts (id, organization_id, build_id, job_id, state, path, mime_type, file_size, sha1sum, location, created_at)
			VALUES ($1, $2, $3, $4, 'finished', 'a', 'text/plain', 1, '', '', 0)`, core.NewID(), w.OrgID, buildID, jobID)
		return err
	}))
}

func TestRetention_KeepsWhatIsYoungOrUnfinishedOrAnothers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.keep(30)
		cy := w.As(t, "svcua_cy")
		cy.Post(rival+"/pipelines", map[string]any{
			"name": "Theirs", "repository": "https://git.example.test/rival/theirs.git", "configuration": "steps: [{command: theirs}]",
		}).Want(http.StatusCreated)
		cy.Post(rival+"/pipelines/theirs/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		cy.Put(rival+"/pipelines/theirs/builds/1/cancel", nil).Want(http.StatusOK)
		for range 3 {
			w.Create(nil)
		}
		w.Run(1, "echo hello", 0)
		w.Start(w.Job(3, "echo hello"))
		w.Pass(15 * day)
		w.Run(2, "echo hello", 0)
		w.Pass(16 * day)
		w.Ada.Get(hello + "/1").Want(http.StatusNotFound)
		w.Build(2)
		w.Build(3)
		cy.Get(rival + "/pipelines/theirs/builds/1").Want(http.StatusOK)
	})
}

func TestRetention_IsForEverUnlessItIsSet(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		w.Run(1, "echo hello", 0)
		w.Pass(20 * 365 * day)
		w.Build(1)
		w.keep(30)
		w.keep(0)
		w.Pass(time.Hour)
		w.Build(1)
	})
}

func TestRetention_IsDoneInSmallPieces(t *testing.T) {
	tests := map[string]struct{ builds, jobs, want int }{
		"many small builds": {builds: 52, jobs: 1, want: 50},
		"some larger ones":  {builds: 4, jobs: 250, want: 2},
		"large ones":        {builds: 2, jobs: 600, want: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.keep(30)
				w.Steps(fmt.Sprintf("{command: work, parallelism: %d}", test.jobs))
				for number := range test.builds {
					w.Create(nil)
					w.Ada.Put(fmt.Sprintf("%s/%d/cancel", hello, number+1), nil).Want(http.StatusOK)
				}
				w.Clock.Advance(31 * day)
				before := w.counts()["builds"]
				more := w.removeOld()
				servertest.WantEqual(t, "more to do", more, true)
				servertest.WantEqual(t, "builds removed", before-w.counts()["builds"], test.want)
				w.Pass(0)
				servertest.WantEqual(t, "builds left", w.counts()["builds"], 0)
			})
		})
	}
}

// SQLite has one writer, so there is no lock to wait for.
func TestRetention_WaitsForNoLockOnPostgreSQL(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.PostgreSQL))
	s.Apply(servertest.World)
	w := &world{buildstest.New(t, s)}
	w.keep(30)
	for number := range 2 {
		w.Create(nil)
		w.Run(number+1, "echo hello", 0)
	}
	w.Clock.Advance(31 * day)
	id := w.Build(1).String("id")
	w.WantNoError(w.DB.Write(t.Context(), func(q *db.Q) error { // as a retry of a job does
		if err := q.Lock("builds", id); err != nil {
			return err
		}
		done := make(chan error)
		go func() {
			done <- w.DB.Write(t.Context(), func(q *db.Q) error {
				_, err := retention.RemoveOld(q, w.Clock.Now())
				return err
			})
		}()
		return <-done
	}))
	w.Build(1)
	w.Ada.Get(hello + "/2").Want(http.StatusNotFound)
}
