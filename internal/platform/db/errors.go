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

// ErrNewer is in the error chain for a database whose schema a newer binary has written.
var ErrNewer = errors.New("the database is newer than this program")

// ErrNotWritable is in the error chain of a write to a database that accepts none: its disk is full, or it is
// read-only.
var ErrNotWritable = errors.New("the database cannot be written")

// errClosed is the error of a Read or Write after Close.
var errClosed = &core.Error{Kind: core.Unavailable, Message: "The server is shutting down.", RetryAfter: 1}

const doesNotAnswer = "The database does not answer; try again."

// unavailable returns an error with a message for people, and cause for the log.
func unavailable(cause error, sentence string) error {
	return fmt.Errorf("%w: %w", &core.Error{Kind: core.Unavailable, Message: sentence, RetryAfter: 1}, cause)
}

// notWritable is unavailable for a database that accepts no writes.
func notWritable(cause error, sentence string) error {
	return unavailable(fmt.Errorf("%w: %w", ErrNotWritable, cause), sentence)
}

// asUnavailable gives temporary errors of the database the kind Unavailable, and returns others unchanged.
func asUnavailable(ctx context.Context, err error) error {
	if err == nil || core.KindOf(err) != 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	sentence := ""
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		sentence = sqliteMessages[e.Code()&0xff]
	} else if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		sentence = postgresMessages[e.Code]
	}
	if sentence == "" && connectionLost(err) {
		sentence = doesNotAnswer
	}
	switch {
	case sentence == "":
		return err
	case sentence == DiskFull || sentence == readOnly:
		return notWritable(err, sentence)
	case ctx.Err() != nil: // the drivers report a canceled statement in their own ways
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	default:
		return unavailable(err, sentence)
	}
}

const (
	// DiskFull is the message when the disk has no space for another write.
	DiskFull     = "The disk of the database is full; nothing can be saved until there is space."
	readOnly     = "The database is read-only; nothing can be saved until that is changed."
	keptBusy     = "Another program keeps the database busy; try again."
	cannotBeUsed = "The database cannot be used right now; try again."
)

// sqliteMessages are the messages for primary result codes that no statement is to blame for.
var sqliteMessages = map[int]string{
	sqlite3.SQLITE_FULL:      DiskFull,
	sqlite3.SQLITE_BUSY:      keptBusy,
	sqlite3.SQLITE_IOERR:     cannotBeUsed,
	sqlite3.SQLITE_CANTOPEN:  cannotBeUsed,
	sqlite3.SQLITE_NOMEM:     cannotBeUsed,
	sqlite3.SQLITE_READONLY:  readOnly,
	sqlite3.SQLITE_INTERRUPT: cannotBeUsed,
}

// postgresMessages are the messages for such codes of PostgreSQL.
var postgresMessages = map[string]string{
	"25006": readOnly, // a standby, or a transaction set to read-only
	"53100": DiskFull,
	"55P03": keptBusy,                                 // lock_timeout
	"57014": "The database took too long; try again.", // statement_timeout
}

// connectionLost reports whether err means that PostgreSQL is not reachable, and not that it refused a
// statement.
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

// IsUnique reports whether err means that a row violates a primary key or a unique constraint or index.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// UniqueConstraint returns text with the names of the columns, or of the index for one over expressions, that
// an [IsUnique] error is about; "" for other errors. Check whether it contains a name.
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
