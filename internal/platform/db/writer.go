package db

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	maxBatch     = 128                   // callers per commit
	maxBatchTime = 10 * time.Millisecond // before a commit
	busyLimit    = 30 * time.Second      // how long other processes can block it
)

// writer is the only writer of a SQLite file. Its goroutine owns the connection and runs each waiting call in a
// savepoint of the open transaction. When no call waits, or the batch is full, it commits once and returns all
// results. While the commit runs, the next calls queue up.
//
// A caller's function runs on the caller's goroutine, so that panics and runtime.Goexit happen there. The
// context of a request never reaches the connection: the driver would interrupt a statement, and SQLite reacts
// to an interrupt, as to a full disk, by rolling back the whole transaction with the calls of others in it.
// When that happens anyway, the connection is replaced and the other calls run again, each in its own
// transaction.
type writer struct {
	db    *sql.DB
	log   *slog.Logger
	calls chan *call
	quit  chan struct{}
	done  chan struct{}
	conn  *connection // nil until first used, and after it was discarded
	// committed counts commits.
	committed atomic.Int64
	// batched counts the calls in commits of batches.
	batched atomic.Int64
}

// call is one call of Write.
type call struct {
	ctx    context.Context
	fn     func(*Q) error
	start  chan *Q    // from the writer: run fn with it
	ended  chan error // from the caller: fn returned this
	result chan error // of the whole write
	err    error      // of fn, until the commit

	folded []foldedValue // by fn, if it succeeded
	after  []func()      // by fn, if it succeeded
	db     *DB
}

// errNoReturn replaces the result of a function that panicked or ended its goroutine.
var errNoReturn = errors.New("db: the function did not return")

func newWriter(db *sql.DB, log *slog.Logger) *writer {
	db.SetMaxOpenConns(1)
	w := &writer{db: db, log: log, calls: make(chan *call), quit: make(chan struct{}), done: make(chan struct{})}
	go w.loop()
	return w
}

// stop waits for the calls that have started, and refuses all others.
func (w *writer) stop() {
	close(w.quit)
	<-w.done
}

// write queues a call, runs it when the writer gets to it, and returns its result.
func (w *writer) write(ctx context.Context, fn func(*Q) error) error {
	c := &call{ctx: ctx, fn: fn, start: make(chan *Q), ended: make(chan error), result: make(chan error, 1)}
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return errClosed
	}
	select {
	case q := <-c.start:
		c.run(q)
	case err := <-c.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case q := <-c.start: // again: the transaction was lost because of another call
			c.run(q)
		case err := <-c.result:
			return err
		}
	}
}

// writeOne is the same as write: calls are committed together anyway.
func (w *writer) writeOne(ctx context.Context, fn func(*Q) error) error { return w.write(ctx, fn) }

// run runs fn and gives the connection back, however fn ends.
func (c *call) run(q *Q) {
	err := errNoReturn
	defer func() { c.ended <- err }()
	err = c.fn(q)
}

func (w *writer) loop() {
	defer close(w.done)
	for {
		select {
		case c := <-w.calls:
			w.batch(c)
		case <-w.quit:
			w.discard()
			return
		}
	}
}

// batch runs first and all waiting calls, and commits them together.
func (w *writer) batch(first *call) {
	if err := w.begin(); err != nil {
		first.result <- err
		return
	}
	began := time.Now()
	var calls []*call
	for c := first; c != nil; c = w.next(len(calls), began) {
		calls = append(calls, c)
		if lost := w.runInSavepoint(c); lost != nil {
			w.log.Error("write lost with its transaction", "error", lost, "callers", len(calls))
			w.discard()
			c.result <- lost
			w.retryEach(calls[:len(calls)-1])
			return
		}
	}
	if err := w.commit(calls...); err != nil {
		w.log.Error("commit failed", "error", err, "callers", len(calls))
		w.discard()
		if len(calls) == 1 {
			first.result <- err
			return
		}
		w.retryEach(calls)
		return
	}
	w.batched.Add(int64(len(calls)))
	for _, c := range calls {
		runAll(c.after)
	}
	for _, c := range calls {
		c.result <- c.err
	}
}

// next returns a waiting call, or nil when it is time to commit.
func (w *writer) next(batched int, began time.Time) *call {
	if batched >= maxBatch || time.Since(began) > maxBatchTime {
		return nil
	}
	select {
	case c := <-w.calls:
		return c
	default:
		return nil
	}
}

// retryEach runs calls whose transaction was lost again, each in its own transaction and with its own result.
func (w *writer) retryEach(calls []*call) {
	for _, c := range calls {
		if c.err == errNoReturn {
			continue
		}
		c.result <- w.runAlone(c)
	}
}

func (w *writer) runAlone(c *call) error {
	if err := w.begin(); err != nil {
		return err
	}
	err := w.runInSavepoint(c)
	if err == nil {
		err = w.commit(c)
	}
	if err != nil {
		w.discard()
		return err
	}
	runAll(c.after)
	return c.err
}

// runInSavepoint runs one call and undoes its changes if it failed. It returns an error when the whole
// transaction is lost.
func (w *writer) runInSavepoint(c *call) error {
	if err := w.exec(`SAVEPOINT caller`); err != nil {
		return err
	}
	q := &Q{ctx: markNested(c.ctx), run: context.Background(), engine: SQLite, conn: w.conn, writing: true}
	select {
	case c.start <- q:
		c.err = <-c.ended
	case <-c.ctx.Done():
		c.err = c.ctx.Err()
	}
	if failed := q.end(); failed != nil {
		if c.err == nil {
			c.err = failed
		}
		if endsTransaction(failed) {
			return failed
		}
	}
	c.folded, c.after, c.db = nil, nil, q.db
	if c.err == nil {
		c.folded, c.after = q.folded, q.after
		return w.exec(`RELEASE caller`)
	}
	if err := w.exec(`ROLLBACK TO caller`); err != nil {
		return errors.Join(c.err, err)
	}
	return w.exec(`RELEASE caller`)
}

// begin opens a transaction; it waits for other processes that write to the same file.
func (w *writer) begin() error {
	for deadline := time.Now().Add(busyLimit); ; {
		err := w.tryBegin()
		if err == nil {
			return nil
		}
		if !isBusy(err) {
			w.discard()
			return err
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-w.quit:
			return errClosed
		case <-time.After(time.Millisecond + rand.N(10*time.Millisecond)): // SQLite itself waits for most kinds of busy, not for all
		}
	}
}

func (w *writer) tryBegin() error {
	if w.conn == nil {
		conn, err := w.db.Conn(context.Background())
		if err != nil {
			return err
		}
		w.conn = newConnection(conn)
	}
	return w.exec(`BEGIN IMMEDIATE`)
}

// commit commits the transaction of calls.
func (w *writer) commit(calls ...*call) error {
	concerned, err := w.fold(calls...)
	defer func() { changed(concerned) }() // also after an error, as in DB.Write
	if err != nil {
		return err
	}
	w.committed.Add(1)
	return w.exec(`COMMIT`)
}

func (w *writer) commits() int64 { return w.committed.Load() }

func (w *writer) exec(query string) error {
	_, err := w.conn.exec(context.Background(), query, nil)
	return err
}

// discard closes the connection, and with it any open transaction.
func (w *writer) discard() {
	if w.conn == nil {
		return
	}
	w.conn.discard()
	w.conn = nil
}

// endsTransaction reports whether SQLite may have rolled back the whole transaction, not only the statement
// that failed.
func endsTransaction(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY
}
