package db

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// poolSize is the maximum number of connections of a replica, unless the URL has pool_max_conns.
	poolSize = 16
	// maxAttempts is how often a transaction is tried when the server keeps aborting it.
	maxAttempts = 10
	// finishTimeout bounds a commit or rollback, which continues when the request ends.
	finishTimeout = 15 * time.Second
)

// postgresEngine runs each read on one connection of the pool, and each write as a READ COMMITTED transaction.
type postgresEngine struct {
	process string // see DB.Process
	pool    *pgxpool.Pool
	db      *sql.DB
	log     *slog.Logger
	// types caches the types of columns for InsertMany.
	types columnTypes
	// committed counts commits.
	committed atomic.Int64
}

func (e *postgresEngine) commits() int64 { return e.committed.Load() }

func openPostgres(ctx context.Context, connect string, log *slog.Logger) (*postgresEngine, error) {
	config, err := pgxpool.ParseConfig(connect)
	if err != nil {
		return nil, fmt.Errorf("the database URL cannot be used: %w", err)
	}
	if u, err := url.Parse(connect); err == nil && !u.Query().Has("pool_max_conns") {
		config.MaxConns = poolSize
	}
	process := strings.ToLower(cryptorand.Text()[:16])
	config.ConnConfig.RuntimeParams["application_name"] = applicationName(config.ConnConfig.RuntimeParams["application_name"], process)
	applySessionSettings(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	e := &postgresEngine{process: process, pool: pool, db: stdlib.OpenDBFromPool(pool), log: log}
	if err := e.ping(ctx); err != nil {
		e.closeAll()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return e, nil
}

// applicationName returns the name of the connections of a process: what operators call it, and the process.
func applicationName(given, process string) string {
	const longest = 63 // characters that PostgreSQL keeps
	given = cmp.Or(given, "stackyard")
	return given[:min(len(given), longest-len(" #")-len(process))] + " #" + process
}

// closeAll waits for the connections in use.
func (e *postgresEngine) closeAll() error {
	e.pool.Close()
	return e.db.Close()
}

// ping begins a writing transaction, which a standby refuses.
func (e *postgresEngine) ping(ctx context.Context) error {
	return e.write(ctx, func(*Q) error { return nil })
}

// connect takes a connection from the pool. Any failure means that the database is unavailable to this caller.
func (e *postgresEngine) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := e.db.Conn(ctx)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, err
	default:
		return nil, unavailable(err, doesNotAnswer)
	}
}

func (e *postgresEngine) read(ctx context.Context, fn func(*Q) error) error {
	err := e.readOnce(ctx, fn)
	if err != nil && connectionLost(err) && ctx.Err() == nil {
		// Most often the server was restarted and the pool has connections to the old one.
		e.pool.Reset()
		err = e.readOnce(ctx, fn)
	}
	return err
}

func (e *postgresEngine) readOnce(ctx context.Context, fn func(*Q) error) error {
	conn, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	q := &Q{ctx: markNested(ctx), run: ctx, engine: PostgreSQL, types: &e.types, conn: &connection{Conn: conn}}
	defer q.end()
	if err := fn(q); err != nil {
		return err
	}
	return q.flush()
}

func (e *postgresEngine) write(ctx context.Context, fn func(*Q) error) error {
	for attempt := 1; ; attempt++ {
		begun, err := e.writeOnce(ctx, fn)
		if !begun && err != nil && attempt == 1 && connectionLost(err) && ctx.Err() == nil {
			e.pool.Reset() // it may have connections to a server that was restarted
			continue
		}
		if !isAborted(err) || attempt == maxAttempts {
			return err
		}
		e.log.DebugContext(ctx, "retry transaction", "error", err, "attempt", attempt)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(5 * time.Millisecond << min(attempt, 6))):
		}
	}
}

// beginText starts a transaction. It is sent together with the first statements, see Q.Later.
const beginText = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`

// writeOnce reports whether a transaction began; if not, nothing has happened.
func (e *postgresEngine) writeOnce(ctx context.Context, fn func(*Q) error) (begun bool, err error) {
	conn, err := e.connect(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	q := &Q{ctx: markNested(ctx), run: ctx, engine: PostgreSQL, types: &e.types, conn: &connection{Conn: conn}, writing: true}
	q.waiting = []laterStatement{{query: beginText}}
	open := true
	defer func() {
		if open && q.sent { // fn failed, panicked, or ended its goroutine
			finish(ctx, conn, `ROLLBACK`)
		}
	}()
	defer q.end()
	if err = fn(q); err == nil {
		err = q.flush()
	}
	if failed := q.end(); failed != nil && (err == nil || isAborted(failed) || connectionLost(failed)) {
		err = failed
	}
	if err != nil {
		return q.begun, err
	}
	open = false
	e.committed.Add(1)
	if err := finish(ctx, conn, `COMMIT`); err != nil {
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && !connectionLost(e) {
			return true, err // the server answered that it did not commit
		}
		return true, unavailable(err, "The database went away while saving; look whether the change was saved before trying again.")
	}
	return true, nil
}

// writeOne runs fn without BEGIN, so that its statement is its own transaction.
func (e *postgresEngine) writeOne(ctx context.Context, fn func(*Q) error) error {
	conn, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	e.committed.Add(1)
	q := &Q{ctx: markNested(ctx), run: ctx, engine: PostgreSQL, types: &e.types, conn: &connection{Conn: conn}, writing: true}
	defer q.end()
	if err := fn(q); err != nil {
		return err
	}
	return q.flush()
}

// beginError returns the error of a transaction that did not begin.
func beginError(ctx context.Context, err error) error {
	switch e, ok := errors.AsType[*pgconn.PgError](err); {
	case ctx.Err() != nil:
		return err
	case ok && e.Code == "0A000": // a standby cannot write
		return notWritable(err, readOnly)
	default:
		return unavailable(err, doesNotAnswer)
	}
}

// finish ends a transaction even if ctx has ended. The pool discards a connection whose transaction could not
// be ended.
func finish(ctx context.Context, conn *sql.Conn, how string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	_, err := conn.ExecContext(ctx, how)
	return err
}

// isAborted reports whether the server aborted a transaction because of others: a deadlock or a serialization
// failure.
func isAborted(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01")
}
