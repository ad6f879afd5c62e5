package db_test

import (
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestProblems_AHealthyDatabaseHasNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if found, err := d.Problems(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("problems %q, error %v", found, err)
		}
	})
}
