package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"stackyard/internal/platform/core"
)

// ErrNewer is in the chain of the error for a database whose schema a newer binary has written.
var ErrNewer = errors.New("the database is newer than this program")

// ErrNotWritable is in the chain of the error of a write to a database that takes none: its disk is full, or
// it is read-only.
var ErrNotWritable = errors.New("the database cannot be written")

// errClosed is the error of a Read or Write that comes after Close.
var errClosed = &core.Error{Kind: core.Unavailable, Message: "The server is shutting down.", RetryAfter: 1}

const doesNotAnswer = "The database does not answer; try again."

// unavailable gives an error the sentence a person sees, and keeps the cause for the log.
func unavailable(cause error, sentence string) error {
	return fmt.Errorf("%w: %w", &core.Error{Kind: core.Unavailable, Message: sentence, RetryAfter: 1}, cause)
}

// notWritable is unavailable for a database that takes no writes.
func notWritable(cause error, sentence string) error {
	return unavailable(fmt.Errorf("%w: %w", ErrNotWritable, cause), sentence)
}

// away gives errors that say "not now" the kind Unavailable, and leaves others as they are.
func away(ctx context.Context, err error) error {
	if err == nil || core.KindOf(err) != 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	sentence := ""
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		sentence = sqliteSentences[e.Code()&0xff]
	} else if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		sentence = postgresSentences[e.Code]
	}
	if sentence == "" && connectionLost(err) {
		sentence = doesNotAnswer
	}
	switch {
	case sentence == "":
		return err
	case sentence == DiskFull || sentence == readOnly:
		return notWritable(err, sentence)
	case ctx.Err() != nil: // which is why: the drivers break off what they are doing
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	default:
		return unavailable(err, sentence)
	}
}

const (
	// DiskFull says that there is no space for another write.
	DiskFull     = "The disk of the database is full; nothing can be saved until there is space."
	readOnly     = "The database is read-only; nothing can be saved until that is changed."
	keptBusy     = "Another program keeps the database busy; try again."
	cannotBeUsed = "The database cannot be used right now; try again."
)

// sqliteSentences says for the primary result codes that are nobody's mistake what a person is told.
var sqliteSentences = map[int]string{
	sqlite3.SQLITE_FULL:      DiskFull,
	sqlite3.SQLITE_BUSY:      keptBusy,
	sqlite3.SQLITE_IOERR:     cannotBeUsed,
	sqlite3.SQLITE_CANTOPEN:  cannotBeUsed,
	sqlite3.SQLITE_NOMEM:     cannotBeUsed,
	sqlite3.SQLITE_READONLY:  readOnly,
	sqlite3.SQLITE_INTERRUPT: cannotBeUsed,
}

// postgresSentences is the same for codes of PostgreSQL.
var postgresSentences = map[string]string{
	"25006": readOnly, // a standby, or a transaction that was made so
	"53100": DiskFull,
	"55P03": keptBusy,                                 // lock_timeout
	"57014": "The database took too long; try again.", // statement_timeout
}

// connectionLost reports whether err says that PostgreSQL is not there to talk to, rather than what
// it thinks of a statement.
func connectionLost(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false // a deadline is a net.Error too
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", "57P02", "57P03", // shutting down, crashed, starting up
			"53300", // no connection left
			"25P03", // idle_in_transaction_session_timeout
			"25006": // a standby after a failover: it only reads
			return true
		}
		return strings.HasPrefix(e.Code, "08")
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err)
}

// IsUnique reports whether err says that a row collides with another in a primary key or a unique
// constraint or index.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// UniqueConstraint returns text that names the columns, or for an index over expressions the index,
// that an [IsUnique] error is about; "" for other errors. Ask whether it contains a name.
func UniqueConstraint(err error) string {
	if !IsUnique(err) {
		return ""
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		// Key (organization_id, slug)=(…) already exists.
		columns, _, _ := strings.Cut(strings.TrimPrefix(e.Detail, "Key "), "=")
		return e.TableName + " " + columns + " " + e.ConstraintName
	}
	// constraint failed: UNIQUE constraint failed: pipelines.organization_id, pipelines.slug (2067)
	_, columns, _ := strings.Cut(err.Error(), "constraint failed: ")
	return columns
}
