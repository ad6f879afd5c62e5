package db_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// text reads one text.
func text(t testing.TB, d *db.DB, query string, args ...any) (s string) {
	t.Helper()
	err := d.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(query, args...).Scan(&s) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// with returns a database URL with a session setting.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

func TestPostgres_BoundsItsSessions(t *testing.T) {
	address := dbtest.URL(t, db.PostgreSQL)
	d := dbtest.Open(t, with(t, address, "statement_timeout", "7min"))
	for name, want := range map[string]string{
		"lock_timeout":                        "15s",
		"statement_timeout":                   "7min", // from the URL
		"idle_in_transaction_session_timeout": "30s",
	} {
		if got := text(t, d, `SELECT current_setting($1)`, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestPostgres_IsUnavailableWhenALockOrAStatementTakesTooLong(t *testing.T) {
	address := dbtest.URL(t, db.PostgreSQL)
	d := dbtest.Open(t, address)
	counters(t, d)
	err := d.Write(t.Context(), func(q *db.Q) error {
		if err := q.Lock("counters", "a"); err != nil {
			return err
		}
		impatient := dbtest.Open(t, with(t, address, "lock_timeout", "1ms"))
		err := impatient.Write(context.Background(), execute(`UPDATE counters SET n = n + 1`))
		if core.KindOf(err) != core.Unavailable || !strings.Contains(err.Error(), "busy; try again") {
			t.Errorf("after waiting for a lock: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	impatient := dbtest.Open(t, with(t, address, "statement_timeout", "1ms"))
	err = impatient.Write(t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT pg_sleep(10)`).Scan(new(string)) })
	if core.KindOf(err) != core.Unavailable || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("after a slow statement: %v", err)
	}
}

// A migration can take any time, and waits for one that is running.
func TestMigrate_IsNotBoundBySessionSettings(t *testing.T) {
	address := dbtest.EmptyURL(t, db.PostgreSQL)
	d, impatient := dbtest.Open(t, address), dbtest.Open(t, with(t, with(t, address, "lock_timeout", "1ms"), "statement_timeout", "1s"))
	const migrationLock = 0x737461636b79
	migrated := make(chan error, 1)
	err := d.Write(t.Context(), func(q *db.Q) error {
		if err := q.QueryRow(`SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)).Scan(new(any)); err != nil {
			return err
		}
		go func() { migrated <- impatient.Migrate(context.Background()) }()
		dbtest.AwaitBlocked(t, dbtest.Open(t, address), 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// A locked row can still be referred to by new rows: that needs only a key share lock.
func TestForUpdate_LetsOthersReferToTheRow(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	counters(t, d)
	for _, lock := range []func(q *db.Q) error{
		func(q *db.Q) error { return q.QueryRow(`SELECT n FROM counters` + q.ForUpdate()).Scan(new(int)) },
		func(q *db.Q) error { return q.LockAll("counters", "id", []string{"a", "b"}) },
		func(q *db.Q) error {
			_, err := q.Exec(`UPDATE counters SET n = 1 WHERE ` + q.InOrder("counters", "id", "n >= 0"))
			return err
		},
	} {
		err := d.Write(t.Context(), func(q *db.Q) error {
			if err := lock(q); err != nil {
				return err
			}
			return d.Write(context.Background(), func(q *db.Q) error {
				referable, err := db.All(q, scanText, `SELECT id FROM counters FOR KEY SHARE SKIP LOCKED`)
				if len(referable) != 1 {
					t.Errorf("rows that others can refer to: %v", referable)
				}
				updatable, err2 := db.All(q, scanText, `SELECT id FROM counters FOR NO KEY UPDATE SKIP LOCKED`)
				if err == nil && err2 == nil && len(updatable) != 0 {
					t.Errorf("rows that others can change: %v", updatable)
				}
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A write that waits for the first row has locked none of the others, wherever they are in the table.
func TestInOrder_LocksRowsInTheOrderOfTheirKeys(t *testing.T) {
	for name, update := range map[string]func(q *db.Q) error{
		"InOrder": func(q *db.Q) error {
			_, err := q.Exec(`UPDATE counters SET n = n + 1 WHERE ` + q.InOrder("counters", "id", "n >= 0"))
			return err
		},
		"LockAll": func(q *db.Q) error { return q.LockAll("counters", "id", []string{"c", "b", "a"}) },
	} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.New(t, db.PostgreSQL)
			write(t, d, `CREATE TABLE counters (id TEXT COLLATE "C" PRIMARY KEY, n BIGINT NOT NULL)`)
			write(t, d, `INSERT INTO counters (id, n) VALUES ('c', 0), ('b', 0), ('a', 0)`)
			updated := make(chan error, 1)
			err := d.Write(t.Context(), func(q *db.Q) error {
				if err := q.Lock("counters", "a"); err != nil {
					return err
				}
				go func() { updated <- d.Write(context.Background(), update) }()
				dbtest.AwaitBlocked(t, d, 1)
				return d.Write(context.Background(), func(q *db.Q) error {
					free, err := db.All(q, scanText, `SELECT id FROM counters ORDER BY id FOR UPDATE SKIP LOCKED`)
					if !slices.Equal(free, []string{"b", "c"}) {
						t.Errorf("rows that are not locked: %v", free)
					}
					return err
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-updated; err != nil {
				t.Error(err)
			}
		})
	}
}
