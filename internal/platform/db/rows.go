package db

import (
	"errors"
	"strconv"

	"stackyard/internal/platform/core"
)

// OrNotFound converts [ErrNoRows] into a NotFound error with a message. It returns other errors as they are.
func OrNotFound(err error, message string) error {
	if errors.Is(err, ErrNoRows) {
		return core.Errorf(core.NotFound, "%s", message)
	}
	return err
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
