package limits

import (
	"context"
	"fmt"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// store is where processes count together.
type store struct {
	db      *db.DB
	clock   core.Clock // replaces the database's clock in tests; nil otherwise
	process string     // name of this process
}

// now returns an expression for the current time; its parameter $n is the result of given.
func (s *store) now(q *db.Q, n int) string {
	return fmt.Sprintf(`COALESCE(CAST($%d AS BIGINT), %s)`, n, q.Clock())
}

// given returns the time that a test sets, or NULL.
func (s *store) given() any {
	if s.clock == nil {
		return nil
	}
	return db.Micros(s.clock())
}

// keep is how long unused rows are kept.
const keep = time.Minute

// sweep removes the rows of keys without recent requests. Locked rows are in use.
func (s *store) sweep(ctx context.Context) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		for _, table := range []string{"rate_windows", "rate_shares"} {
			_, err := q.Exec(`
				DELETE FROM `+table+` WHERE key IN (
					SELECT key FROM `+table+` WHERE at < `+s.now(q, 1)+` - $2`+q.SkipLocked()+`)`, s.given(), keep.Microseconds())
			if err != nil {
				return err
			}
		}
		return nil
	})
}
