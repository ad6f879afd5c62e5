package dbtest_test

import (
	"testing"

	"stackyard/internal/db"
	"stackyard/internal/db/dbtest"
)

func TestEach_GivesAFreshMigratedDatabase(t *testing.T) {
	for range 2 {
		dbtest.Each(t, func(t *testing.T, d *db.DB) {
			err := d.Write(t.Context(), func(q *db.Q) error {
				_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, $2)`, "id", "1")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			var n int
			err = d.Read(t.Context(), func(q *db.Q) error {
				return q.QueryRow(`SELECT count(*) FROM installation`).Scan(&n)
			})
			if err != nil || n != 1 {
				t.Errorf("found %d rows, %v", n, err)
			}
		})
	}
}
