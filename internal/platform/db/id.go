package db

import (
	"errors"

	"stackyard/internal/platform/core"
)

// FreeID returns the id for a new row of a table: the given one, or a new one when none is given. free is false
// when a row has the id already.
func FreeID(q *Q, table, given string) (id string, free bool, err error) {
	id, ok := core.ParseID(given)
	if !ok {
		return core.NewID(), true, nil
	}
	var one int
	err = q.QueryRow(`SELECT 1 FROM `+table+` WHERE id = $1`, id).Scan(&one)
	if errors.Is(err, ErrNoRows) {
		return id, true, nil
	}
	return id, false, err
}
