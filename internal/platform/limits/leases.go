package limits

import (
	"context"
	"time"

	"stackyard/internal/platform/db"
)

// share is what this process may let through by itself within a large limit.
type share struct {
	lease
	limit  int
	others int       // what the others let through in a second, when they last said
	asked  time.Time // zero: never
	until  time.Time // by this process's clock, never later than by the database's
	hungry bool      // a request found the share used up
}

// takeLeased counts a request within the share of this process, which it leases when it has none, and
// again when it is used up and there may be more.
func (l *Limiter) takeLeased(ctx context.Context, c *counter, key string, limit int, now time.Time) Usage {
	s := &c.share
	used := c.within(now)
	live := s.limit == limit && now.Before(s.until)
	if live && used >= s.Share {
		s.hungry = true
	}
	if !live || used >= s.Share && s.mayGrow(now) {
		answered := l.ask(ctx, now, func(ctx context.Context) (err error) {
			*s, err = l.shared.lease(ctx, key, limit, nextWant(limit, s.Want, used, s.hungry), used)
			return err
		})
		s.limit, s.asked, s.until = limit, now, now.Add(life)
		now = l.clock()
		if !answered || !now.Before(s.until) {
			*s = share{}
			return c.take(now, limit)
		}
		used = c.within(now)
	}
	if used >= s.Share {
		s.hungry = true
		return refused(limit)
	}
	c.recent.push(now.UnixMicro())
	return granted(limit, used+1+s.others)
}

// mayGrow reports whether asking for more is worth a statement.
func (s *share) mayGrow(now time.Time) bool {
	switch {
	case s.Share >= s.limit:
		return false
	case s.Share >= s.Want:
		return true
	default:
		return now.Sub(s.asked) >= retry
	}
}

// lease leases a share of a key's limit for this process.
func (s *store) lease(ctx context.Context, key string, limit, want, used int) (got share, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		var all leases
		var now int64
		err := q.QueryRow(`
			INSERT INTO rate_shares AS s (key, leases, at) VALUES ($1, '[]', `+s.now(q, 2)+`)
			ON CONFLICT (key) DO UPDATE SET at = `+s.now(q, 2)+`
			RETURNING leases, at`, key, s.given()).Scan(db.ToJSON(&all), &now)
		if err != nil {
			return err
		}
		got = share{others: all.used(s.process, now)}
		all, got.lease = all.renew(s.process, want, used, limit, now)
		_, err = q.Exec(`UPDATE rate_shares SET leases = $2 WHERE key = $1`, key, db.JSON(all))
		return err
	})
	return got, err
}
