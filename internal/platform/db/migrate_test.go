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

// A migration rebuilds a table by dropping the old one, which must not delete rows that refer to it.
func TestMigrate_DoesNotEnforceForeignKeysOnSQLite(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	write(t, d, `INSERT INTO organizations (id, slug, name, features, limits, created_at) VALUES ('o', 'acme', 'Acme', '{}', '{}', 1)`)
	write(t, d, `INSERT INTO users (id, email, name, created_at) VALUES ('u', 'ada@acme.test', 'Ada', 1)`)
	write(t, d, `INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at) VALUES ('o', 'u', 'admin', '[]', '', 1)`)
	if err := db.RunAsMigration(t.Context(), d, `DROP TABLE users`); err != nil {
		t.Fatal(err)
	}
	if n := number(t, d, `SELECT count(*) FROM memberships`); n != 1 {
		t.Errorf("%d memberships, want 1", n)
	}
}
