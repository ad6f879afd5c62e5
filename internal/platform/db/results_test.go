package db_test

import (
	"path/filepath"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestResults_AreAFileOfTheirOwnOnSQLite(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		results, err := d.Results(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := d.Results(t.Context()); again != results || err != nil {
			t.Errorf("the second call returns %p, %v; want %p", again, err, results)
		}
		if own := results != d; own != (d.Engine() == db.SQLite) {
			t.Errorf("a database of its own: %t", own)
		}
		// A write of results does not wait for a write of the main database.
		err = d.Write(t.Context(), func(*db.Q) error {
			if d.Engine() == db.PostgreSQL {
				return nil
			}
			return results.Write(t.Context(), func(q *db.Q) error {
				_, err := q.Exec(`INSERT INTO pipeline_suites (pipeline_id, suite_id, runs) VALUES ('p', 's', 1)`)
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestResults_AreKeptAndClosedWithTheMainDatabase(t *testing.T) {
	url := dbtest.EmptyURL(t, db.SQLite)
	for range 2 {
		d := dbtest.Open(t, url)
		results, err := d.Results(t.Context()) // migrates the first time
		if err != nil {
			t.Fatal(err)
		}
		if err := results.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`INSERT INTO pipeline_suites AS p (pipeline_id, suite_id, runs) VALUES ('p', 's', 1) ON CONFLICT (pipeline_id, suite_id) DO UPDATE SET runs = p.runs + 1`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Results(t.Context()); err == nil {
			t.Error("results of a closed database can be opened")
		}
		if left, _ := filepath.Glob(filepath.Join(d.Folder(), "results.db-wal")); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	}
	results, err := dbtest.Open(t, url).Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := number(t, results, `SELECT runs FROM pipeline_suites`); n != 2 {
		t.Errorf("runs is %d", n)
	}
}
