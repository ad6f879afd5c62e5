package db

import (
	"context"
	"database/sql"
)

// maxReaders is how many callers read a SQLite file at the same time; others wait for one of them.
const maxReaders = 4

// readers are the connections that read a SQLite file. database/sql has a pool of its own, but hands
// out connections without the statements they have prepared.
type readers struct {
	db   *sql.DB
	free chan *connection // a nil is one that is not open yet
	shut chan struct{}
}

func newReaders(db *sql.DB) *readers {
	r := &readers{db: db, free: make(chan *connection, maxReaders), shut: make(chan struct{})}
	for range maxReaders {
		r.free <- nil
	}
	return r
}

func (r *readers) read(ctx context.Context, fn func(*Q) error) error {
	var conn *connection
	select {
	case conn = <-r.free:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.shut:
		return errClosed
	}
	defer func() { r.free <- conn }()
	if conn == nil {
		opened, err := r.open(ctx)
		if err != nil {
			return away(ctx, err)
		}
		conn = opened
	}
	defer func() {
		if ctx.Err() != nil { // a statement may have been interrupted, which a connection does not get over
			conn.discard()
			conn = nil
		}
	}()
	q := &Q{ctx: lent(ctx), run: ctx, engine: SQLite, conn: conn}
	defer q.end()
	return fn(q)
}

func (r *readers) open(ctx context.Context) (*connection, error) {
	opened, err := r.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	conn := newConnection(opened)
	if err := conn.keepInterrupts(); err != nil {
		conn.discard()
		return nil, err
	}
	return conn, nil
}

// close waits for the reads that have begun, and refuses all others.
func (r *readers) close() {
	close(r.shut)
	for range maxReaders {
		if conn := <-r.free; conn != nil {
			conn.discard()
		}
	}
	r.db.Close()
}
