// Package db is the two storage engines behind one small surface: SQLite inside the binary and
// PostgreSQL beside it. A room writes one SQL text that both understand ($1 parameters, RETURNING,
// ON CONFLICT, common table expressions, partial indexes) and runs it through a [Q].
//
// There are two ways in. [DB.Read] lends a connection that cannot write. [DB.Write] runs a function
// as one transaction and returns when its effect is durable. On SQLite all writes go through one
// connection, and the transactions of all callers that wait at the same moment are committed
// together, each in its own savepoint, with one fsync for all (writer.go). On PostgreSQL each write
// is a READ COMMITTED transaction of its own, run again when the server chose it as the victim of a
// deadlock (postgres.go). A room that is to be right on both locks what it reads to decide with
// [Q.Lock] or [Q.LockName]; on SQLite there is only one writer, so both do nothing.
//
// Four rules for the functions given to Read and Write:
//
//   - They may be run more than once, so they have no effect outside of the transaction other than
//     assigning variables anew.
//   - They do no slow work and make no network call: on SQLite everybody else waits.
//   - They do not call Read or Write again, which would wait for itself; they pass the Q on. With the
//     context of the Q such a call panics.
//   - The first statement of a write that fails spoils it, as PostgreSQL has it: statements after
//     it fail too, and nothing is written even if the function returns nil. Use ON CONFLICT rather
//     than catching errors.
//
// Who waits for a change is woken after its commit: a write says with [Q.Announce] what it changes
// (announce.go), and the processes that share a PostgreSQL database tell each other with [DB.Notify]
// and [DB.Listen] (listen.go). Package bus puts the two together.
//
// What the engines understand differently and no test may notice: say NULLS FIRST or NULLS LAST when
// sorting a column that may be NULL, and ESCAPE with LIKE. LIKE minds case on both.
//
// Columns hold what both engines store alike: ids, text and JSON as TEXT, times as BIGINT
// microseconds UTC, numbers as BIGINT or INTEGER, truth as BOOLEAN, bytes as BLOB. NULL stands for
// the zero time and, where a column allows it, for no text. See columns.go for how Go values get
// there and back.
//
// Migrations are the numbered files in the migrations folder, forward only, one text for both
// engines (migrate.go). Tests get a fresh migrated database of either engine in milliseconds from
// package dbtest.
package db

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// Engine names a storage engine.
type Engine string

// The two engines.
const (
	SQLite     Engine = "sqlite"
	PostgreSQL Engine = "postgres"
)

// DB is an open database. It is safe for concurrent use.
type DB struct {
	engine
	name     Engine
	log      *slog.Logger
	close    func() error
	audience audience
	// statements counts those that were run.
	statements atomic.Int64
	listener   atomic.Pointer[func(text string, args []any)]
}

// engine is what SQLite and PostgreSQL each do in their own way.
type engine interface {
	read(ctx context.Context, fn func(*Q) error) error
	write(ctx context.Context, fn func(*Q) error) error
	writeOne(ctx context.Context, fn func(*Q) error) error
	ping(ctx context.Context) error
	notify(ctx context.Context, messages []string) error
	listen(ctx context.Context, ready func(), heard func(message string)) error
	migrate(ctx context.Context) ([]string, error)
	lockServer(ctx context.Context) error
	closeAll() error
}

// Open connects to a database. url is "sqlite:PATH" or a bare path, whose file and folder are
// created when missing, or "postgres://…", whose server must answer. It does not migrate.
func Open(ctx context.Context, url string, log *slog.Logger) (*DB, error) {
	d := &DB{log: log}
	var err error
	switch scheme, rest, _ := strings.Cut(url, ":"); scheme {
	case "postgres", "postgresql":
		d.name = PostgreSQL
		d.engine, err = openPostgres(ctx, url, log)
	case "sqlite":
		d.name = SQLite
		d.engine, err = openSQLite(ctx, rest, log)
	default:
		d.name = SQLite
		d.engine, err = openSQLite(ctx, url, log)
	}
	if err != nil {
		return nil, err
	}
	d.close = sync.OnceValue(d.closeAll)
	return d, nil
}

// Close waits for the writes that have begun, refuses those that have not, and closes the database.
// On SQLite it leaves one clean file behind.
func (d *DB) Close() error { return d.close() }

// Folder returns where a SQLite database is; "" for PostgreSQL.
func (d *DB) Folder() string {
	if e, ok := d.engine.(*sqliteEngine); ok {
		return filepath.Dir(e.path)
	}
	return ""
}

// Engine says which engine this is.
func (d *DB) Engine() Engine { return d.name }

// Ping returns nil when the database serves reads and takes writes.
func (d *DB) Ping(ctx context.Context) error { return away(ctx, d.ping(ctx)) }

// Read runs fn with a connection that cannot write. Each statement sees what was committed before
// it; two statements need not see the same moment. When ctx is done the running statement is
// cancelled.
func (d *DB) Read(ctx context.Context, fn func(q *Q) error) error {
	refuseNested(ctx, "Read")
	return away(ctx, d.read(ctx, func(q *Q) error {
		q.listener = d.listener.Load()
		defer func() { d.statements.Add(q.ran) }()
		return fn(q)
	}))
}

// Write runs fn as one transaction and returns nil when its effect is durable. An error of fn rolls
// everything back and is returned. A panic in fn rolls back too and goes on its way.
//
// On SQLite a caller whose ctx ends before its turn is not run; once fn has begun, ctx is not looked
// at any more and the caller learns what became of it. On PostgreSQL ctx cancels until the commit.
func (d *DB) Write(ctx context.Context, fn func(q *Q) error) error {
	refuseNested(ctx, "Write")
	var topics []string // of the last run
	err := d.write(ctx, func(q *Q) error {
		topics = nil
		q.listener = d.listener.Load()
		defer func() { d.statements.Add(q.ran) }()
		err := fn(q)
		if err == nil {
			topics = q.topics
		}
		return err
	})
	d.audience.hear(topics)
	return away(ctx, err)
}

// WriteOne is Write for a function that runs a single statement and announces nothing. On PostgreSQL such
// a statement is a transaction by itself: one round trip instead of three.
func (d *DB) WriteOne(ctx context.Context, fn func(q *Q) error) error {
	refuseNested(ctx, "WriteOne")
	return away(ctx, d.writeOne(ctx, func(q *Q) error {
		q.listener = d.listener.Load()
		defer func() { d.statements.Add(q.ran) }()
		err := fn(q)
		if q.ran > 1 || len(q.topics) > 0 {
			panic("db: more than one statement, or an announcement, inside of WriteOne")
		}
		return err
	}))
}

// Statements returns how many statements Read, Write and Notify have run: what a server that is idle must
// not make grow.
func (d *DB) Statements() int64 { return d.statements.Load() }

// OnStatement has listen called with the text and the arguments of each statement from now on, on the
// goroutine that runs it: for those who measure what statements cost and where they come from.
func (d *DB) OnStatement(listen func(text string, args []any)) { d.listener.Store(&listen) }

// Migrate brings the schema to the newest version this binary knows. Processes that migrate the same
// database at the same time wait for one another. A database with a newer schema is refused with
// [ErrNewer].
func (d *DB) Migrate(ctx context.Context) error {
	applied, err := d.migrate(ctx)
	for _, name := range applied {
		d.log.InfoContext(ctx, "applied migration", "migration", name)
	}
	if err != nil {
		return fmt.Errorf("migrate the database: %w", away(ctx, err))
	}
	return nil
}

// lentKey marks the context of a Q.
type lentKey struct{}

func lent(ctx context.Context) context.Context { return context.WithValue(ctx, lentKey{}, true) }

// refuseNested panics when ctx is that of a Q: a nested call would wait for a connection while
// holding one, and on SQLite for its own turn to end.
func refuseNested(ctx context.Context, call string) {
	if ctx.Value(lentKey{}) != nil {
		panic("db: " + call + " inside of Read or Write; use its Q")
	}
}
