package db_test

import (
	"errors"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestLater_RunsInOrderAndRollsBackWhenACheckFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		wrong := errors.New("wrong number of rows")
		one := func(n int64) error {
			if n != 1 {
				return wrong
			}
			return nil
		}
		add := func(rowID string) error {
			return d.Write(t.Context(), func(q *db.Q) error {
				if err := q.Later(`UPDATE counters SET n = n + 1 WHERE id = $1`, "a"); err != nil {
					return err
				}
				var n int
				if err := q.QueryRow(`SELECT n FROM counters WHERE id = 'a'`).Scan(&n); err != nil {
					return err
				}
				return q.LaterIf(one, `UPDATE counters SET n = $2 WHERE id = $1`, rowID, n+10)
			})
		}
		if err := add("a"); err != nil {
			t.Fatal(err)
		}
		if err := add("none"); !errors.Is(err, wrong) {
			t.Errorf("a write whose check failed: %v", err)
		}
		err := d.Write(t.Context(), func(q *db.Q) error { return q.Later(`UPDATE counters SET nothing = 1`) })
		if err == nil {
			t.Error("a write with a wrong statement succeeded")
		}
		var n int
		err = d.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT n FROM counters WHERE id = 'a'`).Scan(&n) })
		if err != nil || n != 11 {
			t.Errorf("n is %d, %v; want 11", n, err)
		}
	})
}
