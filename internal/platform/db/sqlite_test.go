package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	_ "modernc.org/sqlite"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// writeTogether calls all functions through Write so that they run in one transaction, in their order, and
// returns their errors. It must run in a synctest bubble.
func writeTogether(t *testing.T, d *db.DB, fns ...func(*db.Q) error) []error {
	t.Helper()
	errs := make([]error, len(fns))
	hold := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		d.Write(t.Context(), func(*db.Q) error {
			<-hold
			return nil
		})
	})
	synctest.Wait()
	for i, fn := range fns {
		wait.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					errs[i] = fmt.Errorf("panic: %v", r)
				}
			}()
			errs[i] = d.Write(t.Context(), fn)
		})
		synctest.Wait() // it is queued
	}
	close(hold)
	wait.Wait()
	return errs
}

func TestSQLite_CommitsThoseWhoWaitTogetherAndEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.New(t, db.SQLite)
		counters(t, d)
		var seen []int // values of the counter: seen by each caller in the transaction, and outside of it
		increment := func(q *db.Q) error {
			var n int
			if err := q.QueryRow(`UPDATE counters SET n = n + 1 RETURNING n`).Scan(&n); err != nil {
				return err
			}
			seen = append(seen, n, number(t, d, `SELECT n FROM counters`))
			return nil
		}
		refused := errors.New("refused")
		errs := writeTogether(t, d,
			increment,
			func(q *db.Q) error { q.Exec(`UPDATE counters SET n = n + 1000`); return refused },
			increment,
			func(q *db.Q) error { q.Exec(`UPDATE counters SET n = n + 1000`); panic("out of paper") },
			func(q *db.Q) error { q.Exec(`INSERT INTO counters (id, n) VALUES ('a', 1)`); return nil },
			increment,
		)
		if errs[0] != nil || errs[1] != refused || errs[2] != nil || errs[3].Error() != "panic: out of paper" || !db.IsUnique(errs[4]) || errs[5] != nil {
			t.Errorf("got errors %v", errs)
		}
		if got, want := fmt.Sprint(seen), "[1 0 2 0 3 0]"; got != want {
			t.Errorf("saw %s, want %s", got, want)
		}
		if n := number(t, d, `SELECT n FROM counters`); n != 3 {
			t.Errorf("n is %d, want 3", n)
		}
	})
}

func TestSQLite_RunsTheOthersAgainWhenTheDiskIsFullForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.New(t, db.SQLite)
		counters(t, d)
		runs := 0
		increment := func(q *db.Q) error {
			runs++
			_, err := q.Exec(`UPDATE counters SET n = n + 1`)
			return err
		}
		errs := writeTogether(t, d, increment, increment, increment, increment, increment, increment,
			func(q *db.Q) error {
				var pages int // the limit belongs to this connection and ends with it
				if err := q.QueryRow(`PRAGMA max_page_count = 1`).Scan(&pages); err != nil {
					return err
				}
				_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ('large', $1)`, strings.Repeat("x", 1<<20))
				q.Exec(`UPDATE counters SET n = n + 1000`) // must not run outside of the transaction that was lost
				return err
			})
		for _, err := range errs[:6] {
			if err != nil {
				t.Errorf("got error %v", err)
			}
		}
		if core.KindOf(errs[6]) != core.Unavailable || !strings.Contains(errs[6].Error(), "disk is full") {
			t.Errorf("the caller that filled the disk got %v", errs[6])
		}
		if n := number(t, d, `SELECT n FROM counters`); n != 6 || runs != 12 {
			t.Errorf("n is %d after %d runs, want 6 after 12", n, runs)
		}
		write(t, d, `UPDATE counters SET n = n + 1`)
	})
}

func TestSQLite_RunsTheOthersAgainWhenTheCommitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.New(t, db.SQLite)
		counters(t, d)
		write(t, d, `CREATE TABLE children (id TEXT PRIMARY KEY, parent_id TEXT REFERENCES counters DEFERRABLE INITIALLY DEFERRED)`)
		increment := execute(`UPDATE counters SET n = n + 1`)
		errs := writeTogether(t, d, increment, execute(`INSERT INTO children (id, parent_id) VALUES ('a', 'nobody')`), increment)
		if errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Errorf("got errors %v", errs)
		}
		if n := number(t, d, `SELECT n FROM counters`); n != 2 {
			t.Errorf("n is %d, want 2", n)
		}
	})
}

func TestSQLite_SkipsACallerWhoseContextEndsBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.New(t, db.SQLite)
		hold := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			d.Write(t.Context(), func(*db.Q) error {
				<-hold
				return nil
			})
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wait.Go(func() {
			err := d.Write(ctx, func(*db.Q) error {
				t.Error("it ran")
				return nil
			})
			if err != context.Canceled {
				t.Errorf("got error %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(hold)
		wait.Wait()
		if err := d.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSQLite_WaitsForTheDiskAndEnforcesReferences(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	err := d.Write(t.Context(), func(q *db.Q) error {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
			got, err := db.One(q, scanText, `PRAGMA `+pragma)
			if err != nil {
				return err
			}
			if got != want {
				t.Errorf("%s is %s, want %s", pragma, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// path returns the file of a sqlite: URL.
func path(url string) string { return strings.TrimPrefix(url, "sqlite:") }

// anotherProgram returns a connection to a SQLite file that is not ours.
func anotherProgram(t *testing.T, url string) *sql.Conn {
	t.Helper()
	other, err := sql.Open("sqlite", path(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestSQLite_WaitsForAnotherProgramThatWrites(t *testing.T) {
	url := dbtest.URL(t, db.SQLite)
	d := dbtest.Open(t, url)
	counters(t, d)
	other := anotherProgram(t, url)
	if _, err := other.ExecContext(t.Context(), `BEGIN IMMEDIATE; UPDATE counters SET n = n + 1`); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	impatient := make(chan error)
	go func() { impatient <- d.Write(ctx, execute(`UPDATE counters SET n = n + 1000`)) }()
	patient := make(chan error)
	go func() { patient <- d.Write(t.Context(), execute(`UPDATE counters SET n = n + 10`)) }()
	cancel()
	if err := <-impatient; !errors.Is(err, context.Canceled) {
		t.Errorf("the impatient caller got %v", err)
	}
	if n := number(t, d, `SELECT n FROM counters`); n != 0 {
		t.Errorf("n is %d while the other program has not committed", n)
	}
	if _, err := other.ExecContext(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-patient; err != nil {
		t.Errorf("the patient caller got %v", err)
	}
	if n := number(t, d, `SELECT n FROM counters`); n != 11 {
		t.Errorf("n is %d, want 11", n)
	}
}

func TestSQLite_KeepsItsFilesFromOthers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "data?x=1#y %41")
	file := filepath.Join(folder, "stackyard.db")
	d := dbtest.Open(t, file)
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{folder: 0o700 | os.ModeDir, file: 0o600, file + "-wal": 0o600, file + "-shm": 0o600} {
		stat, err := os.Stat(name)
		if err != nil {
			t.Error(err)
		} else if stat.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, stat.Mode(), want)
		}
	}
}

func TestSQLite_LeavesOneFileWhenClosed(t *testing.T) {
	url := dbtest.URL(t, db.SQLite)
	d := dbtest.Open(t, url)
	counters(t, d)
	number(t, d, `SELECT n FROM counters`)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(path(url) + "-*"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	if n := number(t, dbtest.Open(t, url), `SELECT n FROM counters`); n != 0 {
		t.Errorf("n is %d", n)
	}
}

func TestSQLite_PingAndMigrateWriteNothing(t *testing.T) {
	url := dbtest.URL(t, db.SQLite)
	d := dbtest.Open(t, url)
	counters(t, d)
	contents := func() string {
		var all []byte
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(path(url) + suffix)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		return string(all)
	}
	before := contents()
	if err := errors.Join(d.Ping(t.Context()), d.Migrate(t.Context())); err != nil {
		t.Fatal(err)
	}
	if contents() != before {
		t.Error("a file changed")
	}
}

func TestOpen_ReportsWhichSQLiteFileCannotBeOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Join(file, "below-a-file.db")} {
		_, err := db.Open(t.Context(), name, nil)
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got error %v", err)
		}
	}
}

// The context ends while the arguments are bound, so the driver interrupts a statement before its first step.
// If SQLite dropped the interrupt, the test would hang.
func TestRead_IsCancelledBeforeItsFirstStep(t *testing.T) {
	const endless = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE $1 <> '') SELECT count(*) FROM numbers`
	slowToBind := strings.Repeat("x", 8<<20)
	d := dbtest.New(t, db.SQLite)
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		err := d.Read(ctx, func(q *db.Q) error {
			go func() {
				for range i * 50 { // spread over the time of binding
					runtime.Gosched()
				}
				cancel()
			}()
			var n int
			return q.QueryRow(endless, slowToBind).Scan(&n)
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got error %v", err)
		}
	}
}
