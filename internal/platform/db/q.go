package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrNoRows is what [One] and [Row.Scan] return when the query found nothing.
var ErrNoRows = sql.ErrNoRows

var (
	errEnded   = errors.New("db: a statement after the end of its Read or Write")
	errReading = errors.New("db: a write or a lock inside of Read")
)

// Q runs statements for the function it was lent to, on that function's goroutine only.
type Q struct {
	ctx      context.Context // the caller's
	run      context.Context // what statements run under
	conn     *connection
	engine   Engine
	types    *columnTypes // nil on SQLite
	writing  bool
	open     []*sql.Rows
	topics   []string                       // of Announce
	ran      int64                          // statements
	listener *func(text string, args []any) // called with each; nil: not called
	err      error                          // refuses all further statements
}

// Context returns the context that was given to Read or Write, marked so that calling either with it
// panics.
func (q *Q) Context() context.Context { return q.ctx }

// Exec runs a statement and returns how many rows it inserted, changed or deleted.
func (q *Q) Exec(query string, args ...any) (affected int64, err error) {
	if q.err != nil {
		return 0, q.err
	}
	if !q.writing {
		return 0, errReading
	}
	q.note(query, args)
	result, err := q.conn.exec(q.run, query, args)
	if err != nil {
		return 0, q.failed(err)
	}
	return result.RowsAffected()
}

// Query runs a statement that returns rows. They must be closed before the next statement; [All] and
// [One] see to it and are what rooms mostly use.
func (q *Q) Query(query string, args ...any) (*sql.Rows, error) {
	if q.err != nil {
		return nil, q.err
	}
	q.note(query, args)
	rows, err := q.conn.QueryContext(q.run, query, args...)
	if err != nil {
		return nil, q.failed(err)
	}
	q.open = append(q.open, rows)
	return rows, nil
}

// QueryRow runs a statement that returns at most one row of interest.
func (q *Q) QueryRow(query string, args ...any) *Row {
	if q.err != nil {
		return &Row{q: q, err: q.err}
	}
	q.note(query, args)
	rows, err := q.conn.query(q.run, query, args)
	if err != nil {
		return &Row{q: q, err: q.failed(err)}
	}
	q.open = append(q.open, rows)
	return &Row{q: q, rows: rows}
}

// Row is the result of [Q.QueryRow].
type Row struct {
	q    *Q
	rows *sql.Rows
	err  error
}

// Scan copies the columns of the first row into dest, or returns [ErrNoRows].
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.q.conn.closeRows(r.rows)
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return r.q.failed(err)
		}
		return ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	// Only a closed result tells of an error that came after the first row.
	if err := r.rows.Close(); err != nil {
		return r.q.failed(err)
	}
	return nil
}

// note counts a statement.
func (q *Q) note(text string, args []any) {
	q.ran++
	if q.listener != nil {
		(*q.listener)(text, args)
	}
}

// failed remembers that a statement of a write failed, so that nothing after it counts.
func (q *Q) failed(err error) error {
	if q.writing && q.err == nil {
		q.err = err
	}
	return err
}

// end closes what fn left open and refuses statements from now on. It returns the error that spoiled
// the transaction, if any.
func (q *Q) end() error {
	for _, rows := range q.open {
		rows.Close()
	}
	q.conn.reading = 0
	err := q.err
	q.err = errEnded
	return err
}

// Lock takes the lock of one row until the end of the write, so that what is then read of it stays
// true. A row that does not exist is not locked. table is a constant of the code. Rooms lock in the
// order organization, build, job, runnable.
//
// Rows that merely refer to the locked one can still be inserted by others.
func (q *Q) Lock(table, id string) error {
	if q.engine == SQLite {
		return q.held()
	}
	_, err := q.Exec(`SELECT 1 FROM `+table+` WHERE id = $1 FOR NO KEY UPDATE`, id)
	return err
}

// LockAll locks the rows of a table whose key is one of ids as [Q.Lock] does, in the order of their keys:
// two writes that want the same rows never wait for each other. table and key are constants of the code.
func (q *Q) LockAll(table, key string, ids []string) error {
	if q.engine == SQLite {
		return q.held()
	}
	in, arg := q.In(key, 1, ids)
	_, err := q.Exec(`SELECT 1 FROM `+table+` WHERE `+in+` ORDER BY `+key+` FOR NO KEY UPDATE`, arg)
	return err
}

// InOrder returns a condition for an UPDATE or DELETE of many rows: the same as the given one, except that
// the rows are locked in the order of their keys before any is changed. table and key are constants of the
// code.
func (q *Q) InOrder(table, key, condition string) string {
	if q.engine == SQLite {
		return condition
	}
	return key + ` IN (SELECT ` + key + ` FROM ` + table + ` WHERE ` + condition + ` ORDER BY ` + key + ` FOR NO KEY UPDATE)`
}

// Locking ends a SELECT of one row, of the table that it calls alias, which is locked as [Q.Lock] does and
// returned as it is then. What is joined to it is returned as it was when the statement began.
func (q *Q) Locking(alias string) string {
	if q.engine == SQLite {
		return ""
	}
	return ` FOR NO KEY UPDATE OF ` + alias
}

// LockName takes a lock that has only a name until the end of the write: for rules over rows that do
// not exist yet.
func (q *Q) LockName(name string) error {
	if q.engine == SQLite {
		return q.held()
	}
	_, err := q.Exec(`SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, name)
	return err
}

// ForUpdate ends a SELECT whose rows are locked as [Q.Lock] does, in the order in which it returns them.
func (q *Q) ForUpdate() string {
	if q.engine == SQLite {
		return ""
	}
	return ` FOR NO KEY UPDATE`
}

// ForShare ends a SELECT whose rows nobody changes until the end of the write. Others may hold them so at
// the same time.
func (q *Q) ForShare() string {
	if q.engine == SQLite {
		return ""
	}
	return ` FOR SHARE`
}

// SkipLocked ends a SELECT whose rows are taken by whoever comes first: each row is locked until the
// end of the write, and rows that others hold are left out.
func (q *Q) SkipLocked() string {
	if q.engine == SQLite {
		return ""
	}
	return ` FOR UPDATE SKIP LOCKED`
}

// DeleteSome deletes at most limit rows of a table that meet a condition, and returns how many. table is a
// constant of the code.
func (q *Q) DeleteSome(limit int, table, condition string, args ...any) (deleted int64, err error) {
	text := `DELETE FROM %s WHERE rowid IN (SELECT rowid FROM %s WHERE %s LIMIT %d)`
	if q.engine == PostgreSQL {
		text = `DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %s WHERE %s LIMIT %d))`
	}
	return q.Exec(fmt.Sprintf(text, table, table, condition, limit), args...)
}

// Clock is an expression for the database's own time, as a column holds it: the moment at which it is
// evaluated, which in an ON CONFLICT DO UPDATE is after the row was locked. All processes that share a
// database agree on it.
func (q *Q) Clock() string {
	if q.engine == SQLite {
		return `CAST(unixepoch('subsec') * 1000000 AS BIGINT)`
	}
	return `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`
}

// held returns nil where a lock is as good as held: inside of a write of the only writer.
func (q *Q) held() error {
	if q.err == nil && !q.writing {
		return errReading
	}
	return q.err
}

// In returns a condition that is true when column is one of values, and the argument for its
// parameter $n. It holds for any number of values, none included. One value, which is most common, is
// compared with: PostgreSQL plans that once, and an array each time.
func (q *Q) In(column string, n int, values []string) (condition string, arg any) {
	switch {
	case len(values) == 1:
		return fmt.Sprintf(`%s = $%d`, column, n), values[0]
	case q.engine == PostgreSQL:
		return fmt.Sprintf(`%s = ANY($%d)`, column, n), append([]string{}, values...)
	}
	return fmt.Sprintf(`%s IN (SELECT value FROM json_each($%d))`, column, n), JSON(append([]string{}, values...))
}

// Scan copies the columns of one row, in their order, into dest.
type Scan = func(dest ...any) error

// Each calls scan with each row of a query, and ends with its first error.
func Each(q *Q, scan func(Scan) error, query string, args ...any) error {
	if q.err != nil {
		return q.err
	}
	q.note(query, args)
	rows, err := q.conn.query(q.run, query, args)
	if err != nil {
		return q.failed(err)
	}
	defer q.conn.closeRows(rows)
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return q.failed(err)
	}
	return nil
}

// All returns what scan returns for each row of a query; an empty slice when there are no rows.
func All[T any](q *Q, scan func(Scan) (T, error), query string, args ...any) ([]T, error) {
	all := []T{}
	err := Each(q, func(row Scan) error {
		one, err := scan(row)
		all = append(all, one)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Strings returns the one text column of a query; "" for NULL.
func Strings(q *Q, query string, args ...any) ([]string, error) {
	return All(q, func(row Scan) (s string, err error) { return s, row(ToText(&s)) }, query, args...)
}

// One returns what scan returns for the first row of a query, or [ErrNoRows].
func One[T any](q *Q, scan func(Scan) (T, error), query string, args ...any) (T, error) {
	return scan(q.QueryRow(query, args...).Scan)
}
