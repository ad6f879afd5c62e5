// Package db offers SQLite, inside the binary, and PostgreSQL behind one small API. Packages write one SQL text
// that both understand ($1 parameters, RETURNING, ON CONFLICT, common table expressions, partial indexes) and
// run it through a [Q].
//
// [DB.Read] runs a function with a connection that cannot write. [DB.Write] runs a function as one transaction
// and returns when its effect is durable. On SQLite all writes go through one connection; the transactions of
// all waiting callers are committed together, each in its own savepoint, with one fsync (writer.go). On
// PostgreSQL each write is its own READ COMMITTED transaction, retried after a deadlock (postgres.go). Code
// that must be correct on both locks what it reads to decide, with [Q.Lock] or [Q.LockName]; on SQLite, with
// its single writer, both do nothing.
//
// Four rules for the functions given to Read and Write:
//
//   - They can run more than once, so they have no effect outside of the transaction except assigning
//     variables anew.
//   - They do no slow work and make no network calls: on SQLite all other writers wait.
//   - They do not call Read or Write, which would deadlock; they pass the Q on. With the context of the Q
//     such a call panics.
//   - After the first statement of a write that fails, the write is lost, as on PostgreSQL: later
//     statements fail too, and nothing is written even if the function returns nil. Use ON CONFLICT instead
//     of catching errors.
//
// A write names what it changes with [Q.Announce] (announce.go); subscribers are notified after the commit.
// Processes that share a PostgreSQL database notify each other with [DB.Notify] and [DB.Listen] (listen.go).
// Package bus combines the two.
//
// The engines differ in two ways that SQL must hide: write NULLS FIRST or NULLS LAST when sorting a column that
// can be NULL, and ESCAPE with LIKE. LIKE is case-sensitive on both.
//
// Columns have types that both engines store alike: ids, text and JSON as TEXT, times as BIGINT microseconds
// UTC, numbers as BIGINT or INTEGER, booleans as BOOLEAN, bytes as BLOB. NULL is the zero time and,
// where a column allows it, for empty text. columns.go converts Go values.
//
// Migrations are the numbered files in the migrations folder, forward only, one text for both engines
// (migrate.go). Package dbtest gives tests a fresh migrated database of either engine in milliseconds.
package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"stackyard/internal/platform/trace"
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
	name        Engine
	log         *slog.Logger
	close       func() error
	subscribers subscribers
	// statements counts the statements that ran.
	statements  atomic.Int64
	onStatement atomic.Pointer[func(text string, args []any)]
	results     results
	watches     watches
	clock       atomic.Pointer[Clock] // the newest one; nil: none
}

// engine is the part that SQLite and PostgreSQL implement differently.
type engine interface {
	read(ctx context.Context, fn func(*Q) error) error
	write(ctx context.Context, fn func(*Q) error) error
	writeOne(ctx context.Context, fn func(*Q) error) error
	ping(ctx context.Context) error
	notify(ctx context.Context, messages []string) error
	listen(ctx context.Context, ready func(), receive func(message string)) error
	migrate(ctx context.Context, to Versions, allowed check) ([]string, error)
	versions(ctx context.Context) (Versions, error)
	otherServers(ctx context.Context) (bool, error)
	lockServer(ctx context.Context) error
	commits() int64
	closeAll() error
}

// Open connects to a database. url is "sqlite:PATH" or a bare path, whose file and folder are created when
// missing, or "postgres://…", whose server must answer. It does not migrate.
func Open(ctx context.Context, url string, log *slog.Logger) (*DB, error) {
	d := &DB{log: log}
	var err error
	switch scheme, rest, _ := strings.Cut(url, ":"); scheme {
	case "postgres", "postgresql":
		d.name = PostgreSQL
		d.engine, err = openPostgres(ctx, url, log)
	case "sqlite":
		d.name = SQLite
		d.engine, err = openSQLite(ctx, rest, mainSchema, log)
	default:
		d.name = SQLite
		d.engine, err = openSQLite(ctx, url, mainSchema, log)
	}
	if err != nil {
		return nil, err
	}
	d.close = sync.OnceValue(func() error { return errors.Join(d.results.close(), d.closeAll()) })
	return d, nil
}

// Close waits for the writes that have started, refuses all others, and closes the database. On SQLite it
// leaves a single file for each schema.
func (d *DB) Close() error { return d.close() }

// Folder returns the folder of a SQLite database; "" for PostgreSQL.
func (d *DB) Folder() string {
	if e, ok := d.engine.(*sqliteEngine); ok {
		return filepath.Dir(e.path)
	}
	return ""
}

// Engine returns the engine of the database.
func (d *DB) Engine() Engine { return d.name }

// Ping returns nil when the database serves reads and accepts writes.
func (d *DB) Ping(ctx context.Context) error { return asUnavailable(ctx, d.ping(ctx)) }

// Read runs fn with a connection that cannot write. Each statement sees what was committed before it; two
// statements can see different states. When ctx ends, the running statement is canceled.
func (d *DB) Read(ctx context.Context, fn func(q *Q) error) error {
	refuseNested(ctx, "Read")
	ctx, span := trace.Child(ctx, trace.Client, "database read")
	err := d.read(ctx, func(q *Q) error {
		q.onStatement = d.onStatement.Load()
		defer func() { d.statements.Add(q.ran); span.Number(spanStatements, q.ran) }()
		return fn(q)
	})
	d.endSpan(span, err)
	return asUnavailable(ctx, err)
}

// spanStatements is the attribute with the number of statements of a transaction.
const spanStatements = "stackyard.statements"

// endSpan ends the span of a transaction.
func (d *DB) endSpan(span *trace.Span, err error) {
	if span == nil {
		return
	}
	span.Text("db.system.name", string(d.name))
	if err != nil {
		span.Fail()
	}
	span.End()
}

// Write runs fn as one transaction and returns nil when its effect is durable. An error of fn rolls everything
// back and is returned. A panic in fn rolls back too, and continues.
//
// On SQLite, fn does not run when ctx ends before the writer gets to it; once fn has started, ctx is ignored
// and the caller gets the result. On PostgreSQL, ctx cancels until the commit.
func (d *DB) Write(ctx context.Context, fn func(q *Q) error) error {
	refuseNested(ctx, "Write")
	ctx, span := trace.Child(ctx, trace.Client, "database write")
	var topics, unknown []string // of the last attempt
	var after []func()
	var concerned []*Watch
	defer func() { changed(concerned) }() // when fn panics
	err := d.write(ctx, func(q *Q) error {
		topics, unknown, after = nil, nil, nil
		q.observedBy(d)
		defer func() {
			d.statements.Add(q.ran)
			span.Number(spanStatements, q.ran)
			concerned = append(concerned, q.concerned...)
		}()
		err := fn(q)
		if err == nil && q.engine == PostgreSQL {
			err = writeFolded(q, q.folded)
		}
		if err == nil {
			topics, unknown, after = q.topics, q.unknown, q.after
		}
		return err
	})
	d.endSpan(span, err)
	changed(concerned) // also after an error: the commit may have succeeded although its answer was lost
	concerned = nil
	if err == nil && d.name == PostgreSQL { // the writer of SQLite has run them
		runAll(after)
	}
	if err != nil {
		topics = append(topics, unknown...)
	}
	d.subscribers.notify(topics)
	return asUnavailable(ctx, err)
}

func runAll(functions []func()) {
	for _, fn := range functions {
		fn()
	}
}

// WriteOne is Write for a function that runs a single statement and announces nothing. On PostgreSQL such a
// statement is its own transaction: one round trip instead of three.
func (d *DB) WriteOne(ctx context.Context, fn func(q *Q) error) error {
	refuseNested(ctx, "WriteOne")
	var concerned []*Watch
	defer func() { changed(concerned) }()
	err := d.writeOne(ctx, func(q *Q) error {
		q.observedBy(d)
		defer func() { d.statements.Add(q.ran); concerned = append(concerned, q.concerned...) }()
		err := fn(q)
		if q.ran > 1 || len(q.topics) > 0 || len(q.folded) > 0 {
			panic("db: more than one statement, or an announcement, inside of WriteOne")
		}
		return err
	})
	return asUnavailable(ctx, err)
}

// observedBy makes d see the statements of q.
func (q *Q) observedBy(d *DB) {
	q.db = d
	q.onStatement, q.clock = d.onStatement.Load(), d.clock.Load()
	q.watch(&d.watches)
}

// Statements returns how many statements Read, Write and Notify have run. An idle server must not increase it.
func (d *DB) Statements() int64 { return d.statements.Load() }

// Commits returns how many transactions were committed. On SQLite many calls of Write share one.
func (d *DB) Commits() int64 { return d.commits() }

// BatchedWrites returns how many calls of Write the writer of SQLite has committed, several at once if they came
// together. Divided by [DB.Commits] it is the average size of a group commit. It is 0 on PostgreSQL.
func (d *DB) BatchedWrites() int64 {
	if e, ok := d.engine.(*sqliteEngine); ok {
		return e.batched.Load()
	}
	return 0
}

// OnStatement registers a function that is called with the text and the arguments of each statement, on the
// goroutine that runs it. Tests use it to measure statements.
func (d *DB) OnStatement(listen func(text string, args []any)) { d.onStatement.Store(&listen) }

// Migrate updates the schema to the newest version that this binary knows. Processes that migrate the same
// database at the same time wait for each other. A database with a newer schema is refused with [ErrNewer].
func (d *DB) Migrate(ctx context.Context) error {
	if source, err := d.LoadingFrom(ctx); err != nil || source != "" {
		return errors.Join(err, unfinishedLoad(source))
	}
	return d.migrateTo(ctx, allNewest, d.checkUpgrade)
}

func (d *DB) migrateTo(ctx context.Context, to Versions, allowed check) error {
	applied, err := d.migrate(ctx, to, allowed)
	for _, name := range applied {
		d.log.InfoContext(ctx, "applied migration", "migration", name)
	}
	if err != nil {
		return fmt.Errorf("migrate the database: %w", asUnavailable(ctx, err))
	}
	return nil
}

// nestedKey marks the context of a Q.
type nestedKey struct{}

func markNested(ctx context.Context) context.Context {
	return context.WithValue(ctx, nestedKey{}, true)
}

// refuseNested panics when ctx belongs to a Q: a nested call would wait for a connection while using one, and
// on SQLite for the end of its own transaction.
func refuseNested(ctx context.Context, call string) {
	if ctx.Value(nestedKey{}) != nil {
		panic("db: " + call + " inside of Read or Write; use its Q")
	}
}
