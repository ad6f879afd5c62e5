package db_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A program of the version before keeps writing while a newer one migrates, and no row is lost.
func TestMigrate_UpgradesWhileTheOlderProgramWrites(t *testing.T) {
	newest, err := db.Newest()
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.EmptyURL(t, engine)
			older, newer := dbtest.Open(t, url), dbtest.Open(t, url)
			if err := db.MigrateTo(t.Context(), older, db.Versions{Main: db.PreviousSchema(), Results: newest.Results}); err != nil {
				t.Fatal(err)
			}
			write(t, older, `INSERT INTO organizations (id, slug, name, features, limits, created_at) VALUES ('o', 'acme', 'Acme', '{}', '{}', 1)`)
			add := func(n int) error {
				return older.Write(t.Context(), func(q *db.Q) error {
					id := fmt.Sprintf("u%d", n)
					if _, err := q.Exec(`INSERT INTO users (id, email, name, created_at) VALUES ($1, $1, 'Ada', 1)`, id); err != nil {
						return err
					}
					_, err := q.Exec(`INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at) VALUES ('o', $1, 'member', '[]', '', 1)`, id)
					return err
				})
			}
			if err := add(0); err != nil {
				t.Fatal(err)
			}
			migrated := make(chan error, 1)
			go func() { migrated <- newer.Migrate(t.Context()) }()
			written := 1
			for done := false; !done; written++ {
				select {
				case err := <-migrated:
					if err != nil {
						t.Fatal(err)
					}
					done = true // and one more write, after the upgrade
				default:
				}
				if err := add(written); err != nil {
					t.Fatalf("write %d: %v", written, err)
				}
			}
			if n := number(t, newer, `SELECT count(*) FROM memberships m JOIN users u ON u.id = m.user_id`); n != written {
				t.Errorf("%d members, want %d", n, written)
			}
			if v, err := newer.Versions(t.Context()); err != nil || v.Main != newest.Main {
				t.Errorf("versions %+v, error %v", v, err)
			}
		})
	}
}

func TestMigrate_RefusesAJumpOverAReleaseWhileOtherServersRun(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.EmptyURL(t, engine)
			older, newer := dbtest.Open(t, url), dbtest.Open(t, url)
			if err := db.MigrateTo(t.Context(), older, db.Versions{Main: db.PreviousSchema() - 1, Results: 1}); err != nil {
				t.Fatal(err)
			}
			if err := older.LockServer(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := newer.Migrate(t.Context()); !errors.Is(err, db.ErrUnsafeUpgrade) || !strings.Contains(err.Error(), "stop all servers") {
				t.Errorf("beside an older server: %v", err)
			}
			if err := older.Close(); err != nil {
				t.Fatal(err)
			}
			if err := newer.Migrate(t.Context()); err != nil {
				t.Errorf("alone: %v", err)
			}
		})
	}
}

func TestMigrate_RefusesASchemaThatIsTooOld(t *testing.T) {
	defer db.SetOldestSchema(10)()
	d := dbtest.Open(t, dbtest.EmptyURL(t, db.SQLite))
	if err := db.MigrateTo(t.Context(), d, db.Versions{Main: 9}); err != nil {
		t.Fatal(err)
	}
	err := d.Migrate(t.Context())
	if !errors.Is(err, db.ErrUnsafeUpgrade) || !strings.Contains(err.Error(), "the database has schema 9, and this program migrates from schema 10 on; start an older release first") {
		t.Errorf("error %v", err)
	}
}
