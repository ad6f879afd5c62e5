package limits

import (
	"context"
	"strconv"
	"time"

	"stackyard/internal/platform/db"
)

// fullUntil says that no request is granted within a small limit before a time, because the window is full
// until then.
type fullUntil struct {
	limit int
	until time.Time
}

// takeCounted counts a request with a statement, unless it is known to be refused.
func (l *Limiter) takeCounted(ctx context.Context, c *counter, key string, limit int, now time.Time) Usage {
	if limit <= c.full.limit && now.Before(c.full.until) {
		return refused(limit)
	}
	var w countedWindow
	if !l.callDatabase(ctx, now, func(ctx context.Context) (err error) {
		w, err = l.shared.count(ctx, key, limit)
		return err
	}) {
		return c.take(now, limit)
	}
	if !w.granted {
		c.full = fullUntil{limit, now.Add(w.freeIn(limit))}
		return refused(limit)
	}
	c.take(l.clock(), limit) // in case the database becomes unavailable
	return granted(limit, w.current())
}

// countedWindow is a key's row after a request.
type countedWindow struct {
	recent  string // times of the latest granted requests, newest first
	at      int64  // time of the request, in microseconds of the database
	granted bool
}

// digits is the number of digits of a time in a row: microseconds since 1970, until the year 2286.
const digits = 16

// time returns the time of the n-th latest granted request, counted from 1; 0 when there are fewer.
func (w countedWindow) time(n int) int64 {
	if len(w.recent) < n*digits {
		return 0
	}
	at, _ := strconv.ParseInt(w.recent[(n-1)*digits:n*digits], 10, 64)
	return at
}

// current returns how many requests were granted within the window.
func (w countedWindow) current() int {
	n := 0
	for len(w.recent) >= (n+1)*digits && w.time(n+1) > w.at-window.Microseconds() {
		n++
	}
	return n
}

// freeIn returns the time from the request until the next can be granted.
func (w countedWindow) freeIn(limit int) time.Duration {
	return time.Duration(w.time(limit)-w.at)*time.Microsecond + window
}

// count counts a request in a key's row. The request is granted when the one that came limit requests before is
// outside of the window, so only limit times are kept. A time in the future comes from a clock that was set
// back since, and does not count.
func (s *store) count(ctx context.Context, key string, limit int) (w countedWindow, err error) {
	err = s.db.WriteOne(ctx, func(q *db.Q) error {
		now := s.now(q, 2)
		return q.QueryRow(`
			INSERT INTO rate_windows AS w (key, recent, at, granted)
			SELECT $1, CAST(now AS text), now, TRUE FROM (SELECT `+now+` AS now) AS clock WHERE TRUE
			ON CONFLICT (key) DO UPDATE SET (recent, at, granted) = (
				SELECT CASE WHEN free THEN CAST(now AS text) || substr(w.recent, 1, $3) ELSE w.recent END, now, free
				FROM (
					SELECT now, substr(w.recent, $3 + 1, $4) NOT BETWEEN CAST(now - $5 + 1 AS text) AND CAST(now AS text) AS free
					FROM (SELECT `+now+` AS now) AS clock
				) AS requested)
			RETURNING recent, at, granted`,
			key, s.given(), (limit-1)*digits, digits, window.Microseconds(),
		).Scan(&w.recent, &w.at, &w.granted)
	})
	return w, err
}
