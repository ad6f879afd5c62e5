package db

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	maxBatch     = 128                   // callers in one commit
	maxBatchTime = 10 * time.Millisecond // of turns before a commit
	busyLimit    = 30 * time.Second      // how long other processes may keep it from writing
)

// writer is the one place that writes to a SQLite file. Its goroutine owns the connection and gives
// each waiting caller a turn: a savepoint in the transaction that is open. When nobody waits any
// more, or enough have had their turn, it commits once and tells all of them. While the disk works,
// the next callers gather.
//
// A caller's function runs on the caller's own goroutine, so that a panic, and the end of a test,
// happen where they belong. No request's context ever reaches the connection: the driver would
// interrupt a statement in the middle, and SQLite answers an interrupt, like a full disk, by rolling
// back the whole transaction with everybody in it. Where that happens anyhow, the connection is
// replaced and the others in the transaction have their turn again, alone.
type writer struct {
	db    *sql.DB
	log   *slog.Logger
	calls chan *call
	quit  chan struct{}
	done  chan struct{}
	conn  *connection // nil until first used, and after it was given up
}

// call is one caller's wish to write.
type call struct {
	ctx    context.Context
	fn     func(*Q) error
	turn   chan *Q    // the writer lends the connection
	ended  chan error // the caller gives it back with what fn returned
	result chan error // what became of it
	err    error      // of fn, kept until the commit
}

// errLeft stands for the result of a function that panicked or ended its goroutine.
var errLeft = errors.New("db: the function did not return")

func newWriter(db *sql.DB, log *slog.Logger) *writer {
	db.SetMaxOpenConns(1)
	w := &writer{db: db, log: log, calls: make(chan *call), quit: make(chan struct{}), done: make(chan struct{})}
	go w.loop()
	return w
}

// stop lets the turns that have begun end, and refuses all others.
func (w *writer) stop() {
	close(w.quit)
	<-w.done
}

// write waits for a turn, takes it, and returns what became of it.
func (w *writer) write(ctx context.Context, fn func(*Q) error) error {
	c := &call{ctx: ctx, fn: fn, turn: make(chan *Q), ended: make(chan error), result: make(chan error, 1)}
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return errClosed
	}
	select {
	case q := <-c.turn:
		c.take(q)
	case err := <-c.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case q := <-c.turn: // again: what it did was lost through no fault of its own
			c.take(q)
		case err := <-c.result:
			return err
		}
	}
}

// writeOne is no different: what runs together is committed together anyway.
func (w *writer) writeOne(ctx context.Context, fn func(*Q) error) error { return w.write(ctx, fn) }

// take runs fn and gives the connection back, however fn ends.
func (c *call) take(q *Q) {
	err := errLeft
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
			w.giveUp()
			return
		}
	}
}

// batch gives turns to first and to all who wait, and commits them together.
func (w *writer) batch(first *call) {
	if err := w.begin(); err != nil {
		first.result <- err
		return
	}
	began := time.Now()
	var had []*call
	for c := first; c != nil; c = w.next(len(had), began) {
		had = append(had, c)
		if lost := w.give(c); lost != nil {
			w.log.Error("write lost with its transaction", "error", lost, "callers", len(had))
			w.giveUp()
			c.result <- lost
			w.oneByOne(had[:len(had)-1])
			return
		}
	}
	if err := w.commit(); err != nil {
		w.log.Error("commit failed", "error", err, "callers", len(had))
		w.giveUp()
		if len(had) == 1 {
			first.result <- err
			return
		}
		w.oneByOne(had)
		return
	}
	for _, c := range had {
		c.result <- c.err
	}
}

// next returns a caller who waits, or nil when it is time to commit.
func (w *writer) next(had int, began time.Time) *call {
	if had >= maxBatch || time.Since(began) > maxBatchTime {
		return nil
	}
	select {
	case c := <-w.calls:
		return c
	default:
		return nil
	}
}

// oneByOne gives callers whose transaction was lost another turn, each in a transaction of its own,
// so that each learns its own fate.
func (w *writer) oneByOne(calls []*call) {
	for _, c := range calls {
		if c.err == errLeft {
			continue
		}
		c.result <- w.alone(c)
	}
}

func (w *writer) alone(c *call) error {
	if err := w.begin(); err != nil {
		return err
	}
	err := w.give(c)
	if err == nil {
		err = w.commit()
	}
	if err != nil {
		w.giveUp()
		return err
	}
	return c.err
}

// give lends the connection to one caller and undoes what it did when it failed. It returns an error
// when the whole transaction is lost.
func (w *writer) give(c *call) error {
	if err := w.exec(`SAVEPOINT caller`); err != nil {
		return err
	}
	q := &Q{ctx: lent(c.ctx), run: context.Background(), engine: SQLite, conn: w.conn, writing: true}
	select {
	case c.turn <- q:
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
	if c.err == nil {
		return w.exec(`RELEASE caller`)
	}
	if err := w.exec(`ROLLBACK TO caller`); err != nil {
		return errors.Join(c.err, err)
	}
	return w.exec(`RELEASE caller`)
}

// begin opens a transaction, waiting for another process that writes to the same file.
func (w *writer) begin() error {
	for deadline := time.Now().Add(busyLimit); ; {
		err := w.tryBegin()
		if err == nil {
			return nil
		}
		if !isBusy(err) {
			w.giveUp()
			return err
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-w.quit:
			return errClosed
		case <-time.After(time.Millisecond + rand.N(10*time.Millisecond)): // SQLite has waited for most kinds of busy, not for all
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

func (w *writer) commit() error { return w.exec(`COMMIT`) }

func (w *writer) exec(query string) error {
	_, err := w.conn.exec(context.Background(), query, nil)
	return err
}

// giveUp closes the connection, and with it whatever transaction is open.
func (w *writer) giveUp() {
	if w.conn == nil {
		return
	}
	w.conn.discard()
	w.conn = nil
}

// endsTransaction reports whether SQLite may have rolled back the whole transaction, rather than the
// one statement that failed.
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
