package db

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"stackyard/internal/platform/lru"
)

// maxStatements bounds the prepared statements of a connection. Most texts are constants; those built at run
// time, for filters, must not fill the memory.
const maxStatements = 200

// connection is a database connection with its prepared statements. SQLite needs more time to parse most
// statements than to run them. pgx prepares statements by itself.
type connection struct {
	*sql.Conn
	statements  *lru.Cache[string, *sql.Stmt] // nil when the driver prepares by itself
	openResults int                           // open results
	active      *sql.Rows                     // see keepInterrupts
}

// newConnection returns a connection that prepares its statements.
func newConnection(conn *sql.Conn) *connection {
	return &connection{Conn: conn, statements: lru.New[string, *sql.Stmt](maxStatements)}
}

// keepInterrupts leaves one statement of the connection active, which reads no table and locks nothing. The
// driver interrupts SQLite when a context ends, and SQLite drops an interrupt that comes while no statement is
// active: just before the first step of a statement, which would then run on without end.
func (c *connection) keepInterrupts() (err error) {
	c.active, err = c.QueryContext(context.Background(), `SELECT 1 UNION ALL SELECT 2`)
	return err
}

// discard closes the connection for good, and with it any open transaction.
func (c *connection) discard() {
	c.closeStatements()
	if c.active != nil {
		c.active.Close()
	}
	c.Raw(func(any) error { return driver.ErrBadConn })
	c.Conn.Close()
}

// prepared returns the prepared statement for a text, or nil when the text must run unprepared. A prepared
// statement has only one result at a time, so none is used while another result is open.
func (c *connection) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if c.statements == nil || c.openResults > 0 {
		return nil, nil
	}
	if s, ok := c.statements.Get(query); ok {
		return s, nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if evicted, ok := c.statements.Add(query, s); ok {
		evicted.Close()
	}
	return s, nil
}

// closeStatements closes the prepared statements.
func (c *connection) closeStatements() {
	if c.statements == nil {
		return
	}
	for _, s := range c.statements.Clear() {
		s.Close()
	}
}

func (c *connection) exec(ctx context.Context, query string, args []any) (sql.Result, error) {
	s, err := c.prepared(ctx, query)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return c.ExecContext(ctx, query, args...)
	default:
		return s.ExecContext(ctx, args...)
	}
}

// query returns rows that must be closed with closeRows.
func (c *connection) query(ctx context.Context, query string, args []any) (rows *sql.Rows, err error) {
	s, err := c.prepared(ctx, query)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		rows, err = c.QueryContext(ctx, query, args...)
	default:
		rows, err = s.QueryContext(ctx, args...)
	}
	if err != nil {
		return nil, err
	}
	c.openResults++
	return rows, nil
}

func (c *connection) closeRows(rows *sql.Rows) {
	rows.Close()
	c.openResults--
}
