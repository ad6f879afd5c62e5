package db

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"stackyard/internal/platform/core"
)

// OrNotFound converts [ErrNoRows] into a NotFound error with a message. It returns other errors as they are.
func OrNotFound(err error, message string) error {
	if errors.Is(err, ErrNoRows) {
		return core.Errorf(core.NotFound, "%s", message)
	}
	return err
}

// Find is [One] that returns a NotFound error with a message when there is no row.
func Find[T any](q *Q, notFound string, scan func(Scan) (T, error), query string, args ...any) (T, error) {
	found, err := One(q, scan, query, args...)
	if err != nil {
		var none T
		return none, OrNotFound(err, notFound)
	}
	return found, nil
}

// ReadValue returns what fn reads; see [DB.Read].
func ReadValue[T any](ctx context.Context, d *DB, fn func(q *Q) (T, error)) (value T, err error) {
	err = d.Read(ctx, func(q *Q) (err error) {
		value, err = fn(q)
		return err
	})
	return value, err
}

// OrUpdate ends an INSERT statement: if a row with the same key exists, it writes the values of these columns, which
// are separated by commas, into that row.
func OrUpdate(key, columns string) string {
	set := strings.Split(columns, ",")
	for i, column := range set {
		column = strings.TrimSpace(column)
		set[i] = column + " = excluded." + column
	}
	return " ON CONFLICT (" + key + ") DO UPDATE SET " + strings.Join(set, ", ")
}

// Count returns the number that a query selects.
func Count(q *Q, query string, args ...any) (n int, err error) {
	err = q.QueryRow(query, args...).Scan(&n)
	return n, err
}

// ListPage returns one page of the rows of a query, and their total number. list is the query without LIMIT and
// OFFSET, count selects the number of its rows; args are the arguments of both.
func ListPage[T any](q *Q, scan func(Scan) (T, error), list, count string, limit, offset int, args ...any) ([]T, int, error) {
	n := len(args)
	bounds := ` LIMIT $` + strconv.Itoa(n+1) + ` OFFSET $` + strconv.Itoa(n+2)
	items, err := All(q, scan, list+bounds, append(args[:n:n], limit, offset)...)
	if err != nil {
		return nil, 0, err
	}
	total, err := Count(q, count, args...)
	return items, total, err
}
