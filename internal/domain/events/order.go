package events

import (
	"context"
	"time"

	"stackyard/internal/platform/db"
)

// An event gets its number when it is inserted and becomes visible when its transaction commits, so on PostgreSQL
// number 8 can become visible before number 7. A reader that read on to 8 would never see 7.
//
// Readers therefore take the newest visible number and then wait until the transactions that hold the table's
// insert lock at that moment have ended. Whoever got a smaller number took that lock before, so afterwards every
// event up to that number is visible or will never be. The wait is short: capabilities write events at the end of
// their transactions. SQLite has one writer, whose numbers become visible in order.

const (
	// minWait and maxWait bound the time between two looks at the transactions that a reader waits for.
	minWait, maxWait = time.Millisecond, 50 * time.Millisecond
	// slowWait is the wait after which operators should know.
	slowWait = 10 * time.Second
)

// insertLocks are the transactions of this database that have inserted events and have not ended.
const insertLocks = `
	SELECT DISTINCT l.virtualtransaction FROM pg_locks l
	WHERE l.locktype = 'relation' AND l.relation = to_regclass('events') AND l.mode = 'RowExclusiveLock' AND l.granted
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`

// settle waits until no event can appear before those that are visible now.
func (s *Service) settle(ctx context.Context) error {
	if s.db.Engine() != db.PostgreSQL {
		return nil
	}
	writers, err := s.writers(ctx, insertLocks)
	started, wait := time.Now(), minWait
	for err == nil && len(writers) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		if waited := time.Since(started); waited > slowWait {
			s.log.WarnContext(ctx, "events wait for slow transactions", "waited", waited.Round(time.Second), "transactions", writers)
			started = time.Now()
		}
		wait = min(2*wait, maxWait)
		writers, err = s.writers(ctx, insertLocks+` AND l.virtualtransaction = ANY($1)`, writers)
	}
	return err
}

func (s *Service) writers(ctx context.Context, query string, args ...any) (ids []string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		ids, err = db.Strings(q, query, args...)
		return err
	})
	return ids, err
}
