package db_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestPostgres_RunsTheVictimOfADeadlockAgain(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	counters(t, d)
	write(t, d, `INSERT INTO counters (id, n) VALUES ('b', 0)`)
	var wait, met sync.WaitGroup
	met.Add(2)
	runs := map[string]int{}
	var mu sync.Mutex
	crossing := func(first, second string) {
		once := sync.OnceFunc(func() { // only the first time: the other transaction may have ended before a retry
			met.Done()
			met.Wait()
		})
		err := d.Write(t.Context(), func(q *db.Q) error {
			mu.Lock()
			runs[first]++
			mu.Unlock()
			if err := q.Lock("counters", first); err != nil {
				return err
			}
			once()
			if err := q.Lock("counters", second); err != nil {
				return errors.New("an error that hides the cause")
			}
			_, err := q.Exec(`UPDATE counters SET n = n + 1`)
			return err
		})
		if err != nil {
			t.Errorf("%s before %s: %v", first, second, err)
		}
	}
	wait.Go(func() { crossing("a", "b") })
	wait.Go(func() { crossing("b", "a") })
	wait.Wait()
	// On a busy machine they can deadlock a second time, and one of them is aborted again.
	if n := runs["a"] + runs["b"]; n < 3 {
		t.Errorf("they ran %d times, want one of them again", n)
	}
	if n := number(t, d, `SELECT n FROM counters WHERE id = 'a'`); n != 2 {
		t.Errorf("n is %d, want 2", n)
	}
}

func TestPostgres_IsUnavailableWhenItsConnectionBreaks(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	counters(t, d)
	runs := 0
	err := d.Write(t.Context(), func(q *db.Q) error {
		runs++
		if _, err := q.Exec(`UPDATE counters SET n = n + 1`); err != nil {
			return err
		}
		_, err := q.Exec(`SELECT pg_terminate_backend(pg_backend_pid())`)
		return err
	})
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Unavailable || e.RetryAfter != 1 || strings.Contains(e.Message, "terminating") || !strings.Contains(err.Error(), "terminating") {
		t.Errorf("got error %v", err)
	}
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
	write(t, d, `UPDATE counters SET n = n + 1`)
	if n := number(t, d, `SELECT n FROM counters`); n != 1 {
		t.Errorf("n is %d, want 1", n)
	}
}

func TestPostgres_DoesNotRepeatACommitThatMayHaveHappened(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	counters(t, d)
	write(t, d, `CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'`)
	write(t, d, `CREATE CONSTRAINT TRIGGER break_off AFTER UPDATE ON counters DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION break_off()`)
	runs := 0
	err := d.Write(t.Context(), func(q *db.Q) error {
		runs++
		_, err := q.Exec(`UPDATE counters SET n = n + 1`)
		return err
	})
	if core.KindOf(err) != core.Unavailable || !strings.Contains(err.Error(), "whether the change was saved") {
		t.Errorf("got error %v", err)
	}
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}

func TestPostgres_ForgetsTheConnectionsOfARestartedServer(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	d := dbtest.Open(t, url)
	counters(t, d)
	breakAll := func() {
		var wait sync.WaitGroup
		var busy sync.WaitGroup
		busy.Add(5)
		for range 5 { // fill the pool
			wait.Go(func() {
				d.Read(t.Context(), func(*db.Q) error {
					busy.Done()
					busy.Wait()
					return nil
				})
			})
		}
		wait.Wait()
		other := dbtest.Open(t, url)
		defer other.Close()
		write(t, other, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		for number(t, other, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`) > 1 {
		}
	}
	breakAll()
	write(t, d, `UPDATE counters SET n = n + 1`)
	breakAll()
	if n := number(t, d, `SELECT n FROM counters`); n != 1 {
		t.Errorf("n is %d, want 1", n)
	}
}

func TestPostgres_IsUnavailableWithoutItsServer(t *testing.T) {
	server, err := dbtest.StartServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL("postgres")
	d := dbtest.Open(t, url)
	server.Stop()
	for name, err := range map[string]error{
		"ping":  d.Ping(t.Context()),
		"read":  d.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT 1`).Scan(new(int)) }),
		"write": d.Write(t.Context(), execute(`SELECT 1`)),
	} {
		if e, ok := errors.AsType[*core.Error](err); !ok || e.Kind != core.Unavailable || e.RetryAfter != 1 {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	if _, err := db.Open(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "connect to the database") {
		t.Errorf("open: got error %v", err)
	}
}

func TestPostgres_CancelsAWriteThatWaitsForALock(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	counters(t, d)
	err := d.Write(t.Context(), func(q *db.Q) error {
		if err := q.Lock("counters", "a"); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error)
		go func() {
			waiting <- d.Write(ctx, func(q *db.Q) error {
				cancel()
				return q.Lock("counters", "a")
			})
		}()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiting caller got %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOpen_DoesNotRevealThePassword(t *testing.T) {
	for _, url := range []string{
		"postgres://someone:hunter2@127.0.0.1:1/stackyard",
		"postgres://someone:hunter2@127.0.0.1:port/stackyard",
	} {
		_, err := db.Open(t.Context(), url, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got error %v", err)
		}
	}
}

func TestPostgres_KeepsWhatIsGoodForSecondsOutOfItsLog(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	n := number(t, d, `SELECT COUNT(*) FROM pg_class WHERE relname IN ('rate_windows', 'rate_shares') AND relpersistence = 'u'`)
	if n != 2 {
		t.Errorf("%d of 2 tables are unlogged", n)
	}
}
