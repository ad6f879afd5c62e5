package limits

import (
	"context"
	"time"

	"stackyard/internal/platform/db"
)

// share is how much of a large limit this process can grant by itself.
type share struct {
	lease
	limit       int
	others      int       // what other processes granted in a second, as last reported
	requestedAt time.Time // when it was requested; zero: never
	until       time.Time // by this process's clock, never later than by the database's
	exhausted   bool      // a request found the share used up
}

// takeLeased counts a request within the share of this process. It leases a share when it has none, and again
// when the share is used up and there may be more.
func (l *Limiter) takeLeased(ctx context.Context, c *counter, key string, limit int, now time.Time) Usage {
	s := &c.share
	used := c.within(now)
	live := s.limit == limit && now.Before(s.until)
	if live && used >= s.Share {
		s.exhausted = true
	}
	if !live || used >= s.Share && s.mayGrow(now) {
		if !l.renew(ctx, s, key, limit, used, now) {
			return c.take(l.clock(), limit) // without the database, every process applies the whole limit
		}
		now = l.clock()
		used = c.within(now)
	}
	if used >= s.Share {
		s.exhausted = true
		return refused(limit)
	}
	c.recent.push(now.UnixMicro())
	return granted(limit, used+1+s.others)
}

// renew leases a share again and reports whether it is usable: the database answered before the lease ended.
func (l *Limiter) renew(ctx context.Context, s *share, key string, limit, used int, now time.Time) bool {
	answered := l.callDatabase(ctx, now, func(ctx context.Context) (err error) {
		*s, err = l.shared.lease(ctx, key, limit, nextWant(limit, s.Want, used, s.exhausted), used)
		return err
	})
	s.limit, s.requestedAt, s.until = limit, now, now.Add(leaseTime)
	if !answered || !l.clock().Before(s.until) {
		*s = share{}
		return false
	}
	return true
}

// mayGrow reports whether a request for more could succeed.
func (s *share) mayGrow(now time.Time) bool {
	switch {
	case s.Share >= s.limit:
		return false
	case s.Share >= s.Want:
		return true
	default:
		return now.Sub(s.requestedAt) >= retry
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
