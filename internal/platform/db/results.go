package db

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

// The folders of the two schemas.
const (
	mainSchema    = "migrations"
	resultsSchema = "results"
)

// resultsFile is the name of the SQLite file with test results, in the folder of the main one.
const resultsFile = "results.db"

// resultsVersions is the table of applied migrations of test results on PostgreSQL, where both schemas share a database.
const resultsVersions = "results_db_version"

// results is the database of test results that belongs to another one.
type results struct {
	mu       sync.Mutex
	db       *DB // nil: not open, or not a database of its own
	migrated bool
	closed   bool
}

// Results returns the database for test results, which are many: on SQLite a file of its own, so that they do not wait
// for the writer that builds need, or make it wait. On PostgreSQL it is d itself. The first call on SQLite opens and
// migrates the file; it is closed with d.
func (d *DB) Results(ctx context.Context) (*DB, error) {
	if d.name == PostgreSQL {
		return d, nil
	}
	opened, err := d.openResults(ctx)
	if err != nil {
		return nil, err
	}
	r := &d.results
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.migrated {
		return opened, nil
	}
	if err := opened.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", resultsFile, err)
	}
	r.migrated = true
	return opened, nil
}

// openResults opens the file of test results of a SQLite database, once.
func (d *DB) openResults(ctx context.Context) (*DB, error) {
	r := &d.results
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if r.db != nil {
		return r.db, nil
	}
	opened := &DB{log: d.log, name: SQLite}
	var err error
	if opened.engine, err = openSQLite(ctx, filepath.Join(d.Folder(), resultsFile), resultsSchema, d.log); err != nil {
		return nil, err
	}
	opened.close = sync.OnceValue(opened.closeAll)
	r.db = opened
	return opened, nil
}

func (r *results) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.db == nil {
		return nil
	}
	return r.db.Close()
}
