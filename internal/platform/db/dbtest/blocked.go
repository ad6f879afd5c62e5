package dbtest

import (
	"testing"
	"time"

	"stackyard/internal/platform/db"
)

// AwaitBlocked returns when n sessions of a PostgreSQL database wait for a lock.
func AwaitBlocked(t testing.TB, d *db.DB, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		var waiting int
		err := d.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`
				SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		})
		if err != nil {
			t.Fatal(err)
		}
		if waiting >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions wait for a lock, want %d", waiting, n)
		}
		time.Sleep(time.Millisecond)
	}
}
