package db_test

import (
	"errors"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestWatch_SeesWritesToItsTables(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	counters(t, d)
	write(t, d, `CREATE TABLE others (id TEXT PRIMARY KEY, n BIGINT NOT NULL)`)
	watch := d.Watch("counters")
	errRefused := errors.New("refused")
	for _, c := range []struct {
		what    string
		write   func() error
		changes bool
	}{
		{"an insert", func() error {
			return d.Write(t.Context(), execute(`INSERT INTO counters AS c (id, n) VALUES ('b', 1) ON CONFLICT (id) DO UPDATE SET n = c.n + 1`))
		}, true},
		{"an update", func() error { return d.Write(t.Context(), execute("\n\t\tUPDATE counters\n\t\tSET n = 2")) }, true},
		{"an update that returns rows", func() error {
			return d.Write(t.Context(), func(q *db.Q) error {
				_, err := db.Strings(q, `UPDATE counters SET n = 3 RETURNING id`)
				return err
			})
		}, true},
		{"a delete", func() error { return d.WriteOne(t.Context(), execute(`DELETE FROM counters WHERE id = 'b'`)) }, true},
		{"a write to another table", func() error {
			return d.Write(t.Context(), execute(`INSERT INTO others (id, n) SELECT id, n FROM counters`))
		}, false},
		{"a write that only reads it", func() error {
			return d.Write(t.Context(), func(q *db.Q) error {
				_, err := db.Strings(q, `SELECT id FROM counters`)
				return err
			})
		}, false},
		{"a failed write, whose commit may have succeeded", func() error {
			err := d.Write(t.Context(), func(q *db.Q) error {
				_, err := q.Exec(`UPDATE counters SET n = 4`)
				return errors.Join(err, errRefused)
			})
			if !errors.Is(err, errRefused) {
				return err
			}
			return nil
		}, true},
	} {
		before := watch.Version()
		if err := c.write(); err != nil {
			t.Fatal(err)
		}
		if changed := watch.Version() != before; changed != c.changes {
			t.Errorf("%s: changed is %t", c.what, changed)
		}
	}
}
