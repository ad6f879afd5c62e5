package db

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// There are two schemas: the main one in the folder migrations, and the one of test results in the folder results
// (results.go).
//
// One SQL text serves both engines. For PostgreSQL, whole words in upper case are replaced: TEXT becomes
// TEXT COLLATE "C", so that text sorts by bytes on both, and BLOB becomes BYTEA. A cast, which has no collation,
// uses lower-case text. The comment /* UNLOGGED */ in CREATE TABLE becomes a keyword: such a table can lose its
// rows in a crash. INTEGER PRIMARY KEY AUTOINCREMENT becomes an identity column; on both engines a number is never
// used twice. WITHOUT ROWID, with which SQLite stores a table in the order of its primary key, is removed.
//
//go:embed migrations/*.sql results/*.sql
var files embed.FS

// advisoryLock is the key of the lock that PostgreSQL migrations run under.
const advisoryLock = 0x737461636b79 // "stacky"

// schema is what a migration needs of an engine.
type schema struct {
	dialect    goose.Dialect
	db         *sql.DB
	files      fs.FS
	folder     string // of files
	versions   string // the table of applied migrations
	isMigrated string // a query that reports whether the table of versions exists
	lock       func(context.Context) (unlock func(), err error)
}

// check returns an error if a database must not be migrated now. It is called while no other process migrates.
type check func(ctx context.Context) error

// always is the check of a database that only this process uses.
func always(context.Context) error { return nil }

// newest as a version means the newest migration of this program.
const newest = -1

// allNewest are the versions that Migrate migrates to.
var allNewest = Versions{Main: newest, Results: newest}

func (e *sqliteEngine) migrate(ctx context.Context, to Versions, allowed check) ([]string, error) {
	db, s, err := e.schemaFile()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if e.schema == resultsSchema {
		return s.migrateUp(ctx, to.Results, allowed)
	}
	return s.migrateUp(ctx, to.Main, allowed)
}

func (e *sqliteEngine) versions(ctx context.Context) (v Versions, err error) {
	db, s, err := e.schemaFile()
	if err != nil {
		return v, err
	}
	defer db.Close()
	if e.schema == resultsSchema {
		v.Results, err = s.version(ctx)
	} else {
		v.Main, err = s.version(ctx)
	}
	return v, err
}

func (e *sqliteEngine) schemaFile() (*sql.DB, schema, error) {
	// SQLite changes a table by rebuilding it, which must not cascade into tables that refer to it, so
	// migrations run without enforcing foreign keys. They do not wait for the disk either: a migration lost to
	// a power failure runs again, and the first write after it, which does wait, makes everything before it in
	// the log durable.
	db, err := openFile(e.path, "foreign_keys(0)", "synchronous(NORMAL)")
	if err != nil {
		return nil, schema{}, err
	}
	return db, schema{
		dialect:    goose.DialectSQLite3,
		db:         db,
		files:      files,
		folder:     e.schema,
		versions:   goose.DefaultTablename,
		isMigrated: `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = $1)`,
		lock:       e.migrationLock,
	}, nil
}

// migrationLock waits for other processes that migrate the same file.
func (e *sqliteEngine) migrationLock(ctx context.Context) (unlock func(), err error) {
	for {
		unlock, err = lockFile(ctx, e.path+"-migration", busyTimeout)
		if !isBusy(err) {
			return unlock, err
		}
	}
}

func (e *postgresEngine) migrate(ctx context.Context, to Versions, allowed check) ([]string, error) {
	main, results := e.schemas()
	defer main.db.Close()
	applied, err := main.migrateUp(ctx, to.Main, allowed)
	if err != nil {
		return applied, err
	}
	more, err := results.migrateUp(ctx, to.Results, allowed)
	return append(applied, more...), err
}

func (e *postgresEngine) versions(ctx context.Context) (v Versions, err error) {
	main, results := e.schemas()
	defer main.db.Close()
	if v.Main, err = main.version(ctx); err != nil {
		return v, err
	}
	v.Results, err = results.version(ctx)
	return v, err
}

// schemas returns both schemas, which share a pool of connections.
func (e *postgresEngine) schemas() (main, results schema) {
	config := e.pool.Config().ConnConfig
	removeTimeouts(config)
	db := stdlib.OpenDB(*config)
	main = schema{
		dialect:    goose.DialectPostgres,
		db:         db,
		files:      postgresFiles{files},
		folder:     mainSchema,
		versions:   goose.DefaultTablename,
		isMigrated: `SELECT to_regclass($1) IS NOT NULL`,
		lock:       func(ctx context.Context) (func(), error) { return migrationLock(ctx, db) },
	}
	results = main
	results.folder, results.versions = resultsSchema, resultsVersions
	return main, results
}

// migrationLock waits for other processes that migrate the same database.
func migrationLock(ctx context.Context, db *sql.DB) (unlock func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, advisoryLock); err != nil {
		conn.Close()
		return nil, err
	}
	return func() {
		finish(ctx, conn, fmt.Sprintf(`SELECT pg_advisory_unlock(%d)`, advisoryLock))
		conn.Close()
	}, nil
}

// newestMigration returns the number of the newest migration of a schema.
func newestMigration(folder string) (version int64, err error) {
	entries, err := files.ReadDir(folder)
	for _, entry := range entries {
		number, err := goose.NumericComponent(entry.Name())
		if err != nil {
			return 0, err
		}
		version = max(version, number)
	}
	return version, err
}

// migrateUp applies the missing migrations up to a version and returns their names. It only reads a database that
// misses none.
func (s schema) migrateUp(ctx context.Context, to int64, allowed check) ([]string, error) {
	if to == 0 {
		return nil, nil
	}
	numbered, err := fs.Sub(s.files, s.folder)
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(s.dialect, s.db, numbered, goose.WithDisableGlobalRegistry(true), goose.WithTableName(s.versions))
	if err != nil {
		return nil, err
	}
	known, err := newestMigration(s.folder)
	if err != nil {
		return nil, err
	}
	if to == newest {
		to = known
	}
	if to > known {
		return nil, fmt.Errorf("%w: its schema has version %d, and this program knows versions up to %d", ErrNewer, to, known)
	}
	if current, err := s.isCurrent(ctx, to); current || err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if current, err := s.isCurrent(ctx, to); current || err != nil {
		return nil, err // another process was faster
	}
	if err := allowed(ctx); err != nil {
		return nil, err
	}
	results, err := provider.UpTo(ctx, to)
	var applied []string
	for _, r := range results {
		applied = append(applied, path.Base(r.Source.Path))
	}
	return applied, err
}

// isCurrent reports whether the newest migration has been applied.
func (s schema) isCurrent(ctx context.Context, newest int64) (bool, error) {
	version, err := s.version(ctx)
	if err != nil {
		return false, err
	}
	if version > newest {
		return false, fmt.Errorf("%w: its schema has version %d, and this program knows versions up to %d; "+
			"start a newer program, or restore a backup from before the upgrade", ErrNewer, version, newest)
	}
	return version == newest, nil
}

// version returns the number of the newest applied migration, 0 for an empty database.
func (s schema) version(ctx context.Context) (version int64, err error) {
	var migrated bool
	if err := s.db.QueryRowContext(ctx, s.isMigrated, s.versions).Scan(&migrated); err != nil || !migrated {
		return 0, err
	}
	query := `SELECT coalesce(max(version_id), 0) FROM ` + s.versions
	err = s.db.QueryRowContext(ctx, query).Scan(&version)
	return version, err
}

// postgresFiles translates SQL files to PostgreSQL.
type postgresFiles struct{ fs.FS }

var (
	textWord = regexp.MustCompile(`\bTEXT\b`)
	blobWord = regexp.MustCompile(`\bBLOB\b`)
	unlogged = []byte(`/* UNLOGGED */`)
	serial   = []byte(`INTEGER PRIMARY KEY AUTOINCREMENT`)
	ordered  = []byte(` WITHOUT ROWID`)
)

func (w postgresFiles) Open(name string) (fs.File, error) {
	file, err := w.FS.Open(name)
	if err != nil || path.Ext(name) != ".sql" {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	text = textWord.ReplaceAll(text, []byte(`TEXT COLLATE "C"`))
	text = blobWord.ReplaceAll(text, []byte(`BYTEA`))
	text = bytes.ReplaceAll(text, unlogged, []byte(`UNLOGGED`))
	text = bytes.ReplaceAll(text, serial, []byte(`BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY`))
	text = bytes.ReplaceAll(text, ordered, nil)
	return rewrittenFile{file, bytes.NewReader(text)}, nil
}

// rewrittenFile is a file with other contents.
type rewrittenFile struct {
	fs.File
	text *bytes.Reader
}

func (r rewrittenFile) Read(p []byte) (int, error) { return r.text.Read(p) }
