package db

import (
	"context"
	"database/sql"
)

// maxReaders is how many callers read a SQLite file at the same time; others wait.
const maxReaders = 4

// readers are the connections that read a SQLite file. The pool of database/sql returns connections without
// their prepared statements.
type readers struct {
	db      *sql.DB
	free    chan *connection // nil for a connection that is not open yet
	closing chan struct{}
}

func newReaders(db *sql.DB) *readers {
	r := &readers{db: db, free: make(chan *connection, maxReaders), closing: make(chan struct{})}
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
	case <-r.closing:
		return errClosed
	}
	defer func() { r.free <- conn }()
	if conn == nil {
		opened, err := r.open(ctx)
		if err != nil {
			return asUnavailable(ctx, err)
		}
		conn = opened
	}
	defer func() {
		if ctx.Err() != nil { // a statement may have been interrupted; the connection stays interrupted
			conn.discard()
			conn = nil
		}
	}()
	q := &Q{ctx: markNested(ctx), run: ctx, engine: SQLite, conn: conn}
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

// close waits for the reads that have started, and refuses all others.
func (r *readers) close() {
	close(r.closing)
	for range maxReaders {
		if conn := <-r.free; conn != nil {
			conn.discard()
		}
	}
	r.db.Close()
}
