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
	clock   core.Clock // instead of the database's, in tests; else nil
	process string     // this one's name
}

// now is an expression for the time that counts, in which the parameter $n is what given returns.
func (s *store) now(q *db.Q, n int) string {
	return fmt.Sprintf(`COALESCE(CAST($%d AS BIGINT), %s)`, n, q.Clock())
}

// given is the time that a test says it is, or NULL.
func (s *store) given() any {
	if s.clock == nil {
		return nil
	}
	return db.Micros(s.clock())
}

// keep is how long rows are kept that nobody asks for.
const keep = time.Minute

// sweep removes the rows of keys that nobody has asked for lately. Rows that somebody holds are in use.
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
