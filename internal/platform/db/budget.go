package db

import "database/sql"

// A Budget bounds how many bytes queries return, for lists whose rows can be large. A nil Budget has no bound.
type Budget struct {
	left int
	err  error
}

// NewBudget returns a budget of bytes; err is the error of spending more.
func NewBudget(bytes int, err error) *Budget { return &Budget{bytes, err} }

// rowBytes is the cost of a row besides its texts.
const rowBytes = 256

// Spend takes bytes out of the budget.
func (b *Budget) Spend(bytes int) error {
	if b == nil {
		return nil
	}
	if b.left -= bytes; b.left < 0 {
		return b.err
	}
	return nil
}

// Within returns a scan function for [All] that spends the bytes of each row. [All] then stops with the
// budget's error at the first row that exceeds it.
func Within[T any](b *Budget, scan func(Scan) (T, error)) func(Scan) (T, error) {
	if b == nil {
		return scan
	}
	return func(row Scan) (one T, err error) {
		return scan(func(dest ...any) error {
			bytes := rowBytes
			counted := make([]any, len(dest))
			for i, d := range dest {
				counted[i] = d
				if scanner, ok := d.(sql.Scanner); ok {
					counted[i] = countingScanner{scanner, &bytes}
				}
			}
			if err := row(counted...); err != nil {
				return err
			}
			for _, d := range dest {
				if text, ok := d.(*string); ok {
					bytes += len(*text)
				}
			}
			return b.Spend(bytes)
		})
	}
}

type countingScanner struct {
	sql.Scanner
	bytes *int
}

func (s countingScanner) Scan(src any) error {
	switch v := src.(type) {
	case string:
		*s.bytes += len(v)
	case []byte:
		*s.bytes += len(v)
	}
	return s.Scanner.Scan(src)
}
