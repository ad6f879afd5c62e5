package db_test

import (
	"errors"
	"strings"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestMigrate_RefusesADatabaseThatIsNewer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)`)
		err := d.Migrate(t.Context())
		if !errors.Is(err, db.ErrNewer) || !strings.Contains(err.Error(), "version 99999") {
			t.Errorf("got error %v", err)
		}
	})
}

func TestMigrate_KeepsWhatIsThere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `INSERT INTO installation (name, value) VALUES ('id', '1')`)
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d, `SELECT count(*) FROM installation`); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}
