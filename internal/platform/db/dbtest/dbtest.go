// Package dbtest gives tests fresh, migrated databases of either engine in milliseconds.
//
// A SQLite database is a copy of a file that is migrated once per test process. A PostgreSQL database is a copy
// of a template in a server that the test process starts from the installed binaries (server.go). Nothing
// remains when the process ends, however it ends.
package dbtest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
)

// Each runs fn once for each engine, as subtests named after them.
func Each(t *testing.T, fn func(t *testing.T, d *db.DB)) {
	for _, e := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(e), func(t *testing.T) { fn(t, New(t, e)) })
	}
}

// New returns a database for one test; it is deleted afterwards.
func New(t testing.TB, e db.Engine) *db.DB {
	t.Helper()
	return Open(t, URL(t, e))
}

// Open opens the database at a URL until the end of the test.
func Open(t testing.TB, url string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), url, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// URL returns the URL of a migrated database for one test, for example to start a server with.
func URL(t testing.TB, e db.Engine) string {
	t.Helper()
	if e == db.PostgreSQL {
		return postgresURL(t, template)
	}
	files, err := migratedFiles()
	if err != nil {
		t.Fatal(err)
	}
	return sqliteURL(t, files)
}

// EmptyURL returns the URL of a database that has not been migrated.
func EmptyURL(t testing.TB, e db.Engine) string {
	t.Helper()
	if e == db.PostgreSQL {
		return postgresURL(t, "template1")
	}
	return sqliteURL(t, nil)
}

func sqliteURL(t testing.TB, files map[string][]byte) string {
	t.Helper()
	// In memory if possible: a commit then does not wait for a busy disk.
	folder, err := os.MkdirTemp(memoryFolder(), "stackyard-sqlite-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "sqlite:" + filepath.Join(folder, sqliteFile)
}

// sqliteFile is the name of the main database.
const sqliteFile = "stackyard.db"

// migratedFiles returns the contents of a migrated SQLite database, by file.
var migratedFiles = sync.OnceValues(func() (map[string][]byte, error) {
	folder, err := os.MkdirTemp(memoryFolder(), "stackyard-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := migrate("sqlite:" + filepath.Join(folder, sqliteFile)); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.db"))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, path := range paths {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return files, nil
})

// migrate migrates the database at a URL.
func migrate(url string) error {
	d, err := db.Open(context.Background(), url, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(context.Background()); err != nil {
		return err
	}
	_, err = d.Results(context.Background())
	return err
}
