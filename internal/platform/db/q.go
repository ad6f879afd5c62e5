package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"stackyard/internal/platform/core"
)

// ErrNoRows is the error of [One] and [Row.Scan] when the query returns no row.
var ErrNoRows = sql.ErrNoRows

var (
	errEnded   = errors.New("db: a statement after the end of its Read or Write")
	errReading = errors.New("db: a write or a lock inside of Read")
)

// Q runs statements for the function it was passed to, on that function's goroutine only.
type Q struct {
	ctx         context.Context // of the caller
	run         context.Context // of the statements
	conn        *connection
	engine      Engine
	types       *columnTypes // nil on SQLite
	writing     bool
	open        []*sql.Rows
	waiting     []laterStatement               // not sent yet; none on SQLite
	sent, begun bool                           // the transaction was asked for, and has begun; not on SQLite
	topics      []string                       // announced so far
	unknown     []string                       // announced if the commit failed
	after       []func()                       // run after the commit
	folded      []foldedValue                  // written before the commit
	db          *DB                            // nil: nothing counts the statements
	ran         int64                          // number of statements
	onStatement *func(text string, args []any) // called with each statement; nil: none
	watches     *watches                       // nil: none
	clock       *Clock                         // nil: that of the machine
	concerned   []*Watch                       // by the statements so far
	err         error                          // when set, all further statements fail with it
}

// Context returns the context that was given to Read or Write, marked so that calling either with it panics.
func (q *Q) Context() context.Context { return q.ctx }

// Now returns the time of the newest clock of the database, or of the machine if there is none.
func (q *Q) Now() time.Time {
	if q.clock != nil {
		return q.clock.Now()
	}
	return core.SystemClock()
}

// Exec runs a statement and returns how many rows it inserted, changed or deleted.
func (q *Q) Exec(query string, args ...any) (affected int64, err error) {
	if err := q.flush(); err != nil {
		return 0, err
	}
	if !q.writing {
		return 0, errReading
	}
	q.count(query, args)
	result, err := q.conn.exec(q.run, query, args)
	if err != nil {
		return 0, q.failed(err)
	}
	return result.RowsAffected()
}

// Query runs a statement that returns rows. Close them before the next statement; [All], [Each] and [One] do
// that.
func (q *Q) Query(query string, args ...any) (*sql.Rows, error) {
	if err := q.flush(); err != nil {
		return nil, err
	}
	q.count(query, args)
	rows, err := q.conn.QueryContext(q.run, query, args...)
	if err != nil {
		return nil, q.failed(err)
	}
	q.open = append(q.open, rows)
	return rows, nil
}

// QueryRow runs a statement and returns its first row.
func (q *Q) QueryRow(query string, args ...any) *Row {
	if err := q.flush(); err != nil {
		return &Row{q: q, err: err}
	}
	q.count(query, args)
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
	// Errors after the first row show only when the result is closed.
	if err := r.rows.Close(); err != nil {
		return r.q.failed(err)
	}
	return nil
}

// count counts a statement and passes it to OnStatement.
func (q *Q) count(text string, args []any) {
	q.ran++
	if q.watches != nil {
		for _, w := range q.watches.concerned(text) {
			q.concern(w)
		}
	}
	if q.onStatement != nil {
		(*q.onStatement)(text, args)
	}
}

// failed records that a statement of a write failed, so that the write is rolled back.
func (q *Q) failed(err error) error {
	if q.writing && q.err == nil {
		q.err = err
	}
	return err
}

// end closes open results and refuses further statements. It returns the error of the statement that failed, if
// any.
func (q *Q) end() error {
	for _, rows := range q.open {
		rows.Close()
	}
	q.conn.openResults = 0
	err := q.err
	q.err = errEnded
	return err
}

// Lock locks one row until the end of the write, so that what is read of it afterwards stays true. It does not
// lock a row that does not exist. table is constant in the code. All packages lock in the order organization,
// build, job, runnable.
//
// Other writes can still insert rows that refer to the locked one.
func (q *Q) Lock(table, id string) error {
	if q.engine == SQLite {
		return q.checkWriting()
	}
	_, err := q.Exec(`SELECT 1 FROM `+table+` WHERE id = $1 FOR NO KEY UPDATE`, id)
	return err
}

// LockLater is [Q.Lock] before the next statement, see [Q.Later].
func (q *Q) LockLater(table, id string) error {
	if q.engine == SQLite {
		return q.checkWriting()
	}
	return q.Later(`SELECT 1 FROM `+table+` WHERE id = $1 FOR NO KEY UPDATE`, id)
}

// LockAll locks the rows of a table whose key is one of ids, as [Q.Lock] does, in the order of their keys, so
// that two writes that lock the same rows cannot deadlock. table and key are constant in the code.
func (q *Q) LockAll(table, key string, ids []string) error {
	if q.engine == SQLite {
		return q.checkWriting()
	}
	in, arg := q.In(key, 1, ids)
	_, err := q.Exec(`SELECT 1 FROM `+table+` WHERE `+in+` ORDER BY `+key+` FOR NO KEY UPDATE`, arg)
	return err
}

// LockAllLater is [Q.LockAll] before the next statement, see [Q.Later].
func (q *Q) LockAllLater(table, key string, ids []string) error {
	if q.engine == SQLite {
		return q.checkWriting()
	}
	in, arg := q.In(key, 1, ids)
	return q.Later(`SELECT 1 FROM `+table+` WHERE `+in+` ORDER BY `+key+` FOR NO KEY UPDATE`, arg)
}

// InOrder returns a condition for an UPDATE or DELETE of many rows. It is equivalent to the given one and locks
// the rows in the order of their keys before any is changed. table and key are constant in the code.
func (q *Q) InOrder(table, key, condition string) string {
	if q.engine == SQLite {
		return condition
	}
	return key + ` IN (SELECT ` + key + ` FROM ` + table + ` WHERE ` + condition + ` ORDER BY ` + key + ` FOR NO KEY UPDATE)`
}

// Locking ends a SELECT of one row of the table with an alias. The row is locked as [Q.Lock] does and returned
// as of then. Joined rows are returned as of the start of the statement.
func (q *Q) Locking(alias string) string {
	if q.engine == SQLite {
		return ""
	}
	return ` FOR NO KEY UPDATE OF ` + alias
}

// LockName takes a named lock until the end of the write, for invariants over rows that do not exist yet.
func (q *Q) LockName(name string) error {
	if q.engine == SQLite {
		return q.checkWriting()
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

// ForShare ends a SELECT whose rows no other write changes until the end of this one. Several writes can lock a
// row this way at the same time.
func (q *Q) ForShare() string {
	if q.engine == SQLite {
		return ""
	}
	return ` FOR SHARE`
}

// SkipLocked ends a SELECT of rows to claim: each row is locked until the end of the write, and rows that
// others have locked are skipped.
func (q *Q) SkipLocked() string {
	if q.engine == SQLite {
		return ""
	}
	return ` FOR UPDATE SKIP LOCKED`
}

// SingleWriter reports whether all writes of the database run one after another, so that they never wait for each
// other's rows.
func (q *Q) SingleWriter() bool { return q.engine == SQLite }

// DeleteSome deletes at most limit rows of a table that match a condition, and returns how many. table is
// constant in the code.
func (q *Q) DeleteSome(limit int, table, condition string, args ...any) (deleted int64, err error) {
	text := `DELETE FROM %s WHERE rowid IN (SELECT rowid FROM %s WHERE %s LIMIT %d)`
	if q.engine == PostgreSQL {
		text = `DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %s WHERE %s LIMIT %d))`
	}
	return q.Exec(fmt.Sprintf(text, table, table, condition, limit), args...)
}

// Clock returns an expression for the database's time, as stored in a column: the time of its evaluation, which
// in an ON CONFLICT DO UPDATE is after the row was locked. All processes that share a database agree on it.
func (q *Q) Clock() string {
	if q.engine == SQLite {
		return `CAST(unixepoch('subsec') * 1000000 AS BIGINT)`
	}
	return `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`
}

// checkWriting returns nil inside of a write. SQLite has one writer, so a write has all locks.
func (q *Q) checkWriting() error {
	if q.err == nil && !q.writing {
		return errReading
	}
	return q.err
}

// In returns a condition that is true when column is one of values, and the argument for its parameter $n. It
// works for any number of values, none included. A single value, the most common case, is compared with =,
// which PostgreSQL plans only once.
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

// Each calls scan with each row of a query, and stops at its first error.
func Each(q *Q, scan func(Scan) error, query string, args ...any) error {
	if err := q.flush(); err != nil {
		return err
	}
	q.count(query, args)
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
