package db

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"modernc.org/sqlite"
)

// busyTimeout, in milliseconds, is how long one statement waits inside SQLite for another process.
const busyTimeout = 2000

// sqliteEngine reads through a few connections that cannot write, and writes through one.
type sqliteEngine struct {
	path         string
	schema       string // the folder of its migrations
	unlockServer func() // nil when the lock is not taken
	*readers
	*writer
}

func openSQLite(ctx context.Context, path, schema string, log *slog.Logger) (*sqliteEngine, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := createFile(path); err != nil {
		return nil, fmt.Errorf("create the database: %w", err)
	}
	reads, err := openFile(path, "query_only(1)", "cache_size(-2000)", "temp_store(MEMORY)")
	if err != nil {
		return nil, err
	}
	// Temporary files in memory: the savepoint of each call copies the pages that it changes to one. Checkpoints are four
	// times as rare as by default, because a page that many writes change is then copied to the file once.
	writes, err := openFile(path, "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-16000)", "journal_size_limit(67108864)",
		"temp_store(MEMORY)", "wal_autocheckpoint(4000)")
	if err != nil {
		return nil, err
	}
	e := &sqliteEngine{path: path, schema: schema, readers: newReaders(reads), writer: newWriter(writes, log)}
	// The first connection of the writer sets the journal mode, which readers depend on.
	if err := e.ping(ctx); err != nil {
		e.closeAll()
		return nil, fmt.Errorf("open the database %s: %w", path, err)
	}
	return e, nil
}

// createFile creates the file and its folder with access for this user only; SQLite gives its other files the
// same mode.
func createFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// openFile returns a pool for a SQLite file that sets pragmas on each connection. A given pragma replaces the one that
// is always set: the driver runs pragmas in the order of their texts.
func openFile(path string, pragmas ...string) (*sql.DB, error) {
	for _, pragma := range []string{"busy_timeout(" + strconv.Itoa(busyTimeout) + ")", "foreign_keys(1)", "case_sensitive_like(1)"} {
		name, _, _ := strings.Cut(pragma, "(")
		if !slices.ContainsFunc(pragmas, func(given string) bool { return strings.HasPrefix(given, name+"(") }) {
			pragmas = append(pragmas[:len(pragmas):len(pragmas)], pragma)
		}
	}
	set := url.Values{"_pragma": pragmas}
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: set.Encode()}
	connector, err := sqlite.NewConnector(file.String())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (e *sqliteEngine) ping(ctx context.Context) error {
	if err := e.write(ctx, func(*Q) error { return nil }); err != nil {
		return err
	}
	return e.read(ctx, func(q *Q) error {
		var tables int
		return q.QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&tables)
	})
}

// closeAll closes the writing connection last: the last connection moves the contents of the write-ahead log
// into the file and deletes the log. Then another server can start.
func (e *sqliteEngine) closeAll() error {
	e.writer.stop()
	e.readers.close()
	err := e.writer.db.Close()
	if e.unlockServer != nil {
		e.unlockServer()
	}
	return err
}
