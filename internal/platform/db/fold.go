package db

import "context"

// A Fold writes values that many transactions add to the same few rows, such as counts. On SQLite it writes those of all
// transactions that are committed together at once, just before the commit, so that each row is written once. On
// PostgreSQL it writes the values of each transaction at its end.
//
// A transaction does not see what it or others have added. Values of a transaction that is rolled back are not written.
type Fold[T any] struct {
	// Write writes values, at least one, in the order in which they were added. It can run more than once.
	Write func(q *Q, values []T) error
}

// Add adds a value in a transaction, for the end of it.
func (f *Fold[T]) Add(q *Q, value T) { q.folded = append(q.folded, foldedValue{f, value}) }

type foldedValue struct {
	fold interface {
		write(q *Q, values []any) error
	}
	value any
}

func (f *Fold[T]) write(q *Q, values []any) error {
	typed := make([]T, len(values))
	for i, v := range values {
		typed[i] = v.(T)
	}
	return f.Write(q, typed)
}

// writeFolded writes values, those of each fold together.
func writeFolded(q *Q, folded []foldedValue) error {
	for i, first := range folded {
		if first.fold == nil {
			continue // written with an earlier one
		}
		var values []any
		for j := i; j < len(folded); j++ {
			if folded[j].fold == first.fold {
				values = append(values, folded[j].value)
				folded[j].fold = nil
			}
		}
		if err := first.fold.write(q, values); err != nil {
			return err
		}
	}
	return nil
}

// fold writes what calls have added to folds. An error means that the transaction is lost. The caller calls changed with
// the watches after the commit.
func (w *writer) fold(calls ...*call) (concerned []*Watch, err error) {
	q := &Q{ctx: markNested(context.Background()), run: context.Background(), engine: SQLite, conn: w.conn, writing: true}
	var folded []foldedValue
	for _, c := range calls {
		if len(c.folded) == 0 {
			continue
		}
		folded = append(folded, c.folded...)
		if q.db == nil && c.db != nil {
			q.observedBy(c.db)
		}
	}
	if len(folded) == 0 {
		return nil, nil
	}
	err = writeFolded(q, folded)
	if failed := q.end(); err == nil {
		err = failed
	}
	if q.db != nil {
		q.db.statements.Add(q.ran)
	}
	return q.concerned, err
}
