package db

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// A laterStatement waits to be sent together with others.
type laterStatement struct {
	query string
	args  []any
	check func(affected int64) error // nil: any number is right
	scan  func(Scan) error           // gets the rows; nil: there are none
}

// maxLater bounds the statements that wait.
const maxLater = 100

// Later runs a statement whose result is not needed at once. On PostgreSQL it is sent together with others, in one
// round trip: before the next statement that is not Later, or before the commit. So its error may be that of a later
// call, and rolls the write back in any case.
func (q *Q) Later(query string, args ...any) error { return q.later(query, nil, args) }

// LaterIf is Later with a check of how many rows the statement inserted, changed or deleted. An error of the check rolls
// the write back and is returned, by a later call or by Write.
func (q *Q) LaterIf(check func(affected int64) error, query string, args ...any) error {
	return q.later(query, check, args)
}

func (q *Q) later(query string, check func(int64) error, args []any) error {
	if q.engine == SQLite {
		n, err := q.Exec(query, args...)
		if err == nil && check != nil {
			err = check(n)
		}
		return err
	}
	if q.err != nil {
		return q.err
	}
	if !q.writing {
		return errReading
	}
	return q.wait(laterStatement{query: query, args: args, check: check})
}

// EachLater is [Each] before the next statement that is not Later, or at the end of the Read or Write: on PostgreSQL it
// shares a round trip with others. scan must not run statements.
func EachLater(q *Q, scan func(Scan) error, query string, args ...any) error {
	if q.engine == SQLite {
		return Each(q, scan, query, args...)
	}
	if q.err != nil {
		return q.err
	}
	return q.wait(laterStatement{query: query, args: args, scan: scan})
}

// wait queues a statement.
func (q *Q) wait(s laterStatement) (err error) {
	q.count(s.query, s.args)
	if s.args, err = plainArgs(s.args); err != nil {
		return q.failed(fmt.Errorf("%w in %s", err, s.query))
	}
	q.waiting = append(q.waiting, s)
	if len(q.waiting) >= maxLater {
		return q.flush()
	}
	return nil
}

// Flush runs the statements that wait, see [Q.Later] and [EachLater].
func (q *Q) Flush() error { return q.flush() }

// flush sends the statements that wait and checks their results.
func (q *Q) flush() error {
	if len(q.waiting) == 0 {
		return q.err
	}
	waiting := q.waiting
	q.waiting = nil
	if q.err != nil {
		return q.err
	}
	q.sent = true
	var done int
	var failed error
	err := q.conn.Raw(func(conn any) error {
		done, failed = sendBatch(q.run, conn.(*stdlib.Conn).Conn(), waiting)
		return nil // whether the connection can be used again is for the pool to find out
	})
	if err == nil {
		err = failed
	}
	if err != nil && done == 0 && waiting[0].query == beginText {
		err = beginError(q.run, err)
	} else {
		q.begun = true
	}
	if err != nil {
		return q.failed(err)
	}
	return nil
}

// sendBatch runs statements in one round trip and returns how many of them ran. It stops at the first that fails, or
// whose check does.
func sendBatch(ctx context.Context, conn *pgx.Conn, statements []laterStatement) (done int, failed error) {
	batch := &pgx.Batch{}
	for _, s := range statements {
		batch.Queue(s.query, s.args...)
	}
	results := conn.SendBatch(ctx, batch)
	for _, s := range statements {
		if s.scan != nil {
			if failed = scanRows(results, s.scan); failed != nil {
				break
			}
			done++
			continue
		}
		tag, err := results.Exec()
		if err != nil {
			failed = err
			break
		}
		done++
		if s.check != nil {
			if failed = s.check(tag.RowsAffected()); failed != nil {
				break
			}
		}
	}
	if err := results.Close(); failed == nil {
		failed = err
	}
	return done, failed
}

// scanRows calls scan with each row of the next result.
func scanRows(results pgx.BatchResults, scan func(Scan) error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// plainArgs returns arguments as database/sql passes them to a driver: without named types and Valuers. Slices stay, they
// are arrays.
func plainArgs(args []any) ([]any, error) {
	plain := make([]any, len(args))
	for i, arg := range args {
		switch arg.(type) {
		case nil, string, int64, bool, []string, []*string, []*int64, []*bool:
			plain[i] = arg
			continue
		}
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, err
		}
		plain[i] = v
	}
	return plain, nil
}
