// Package limits counts requests against limits of so many a second, each for a key of its own. A limit
// holds for every sliding second: look back a second from any moment, and no more requests were let
// through than it says. A refused request does not count.
//
// In one process a counter in memory has the times of the requests it let through (counter.go). Where
// several processes serve the same database they count together, in one of two ways:
//
//   - Small limits: one statement for each request, which reads and writes the times in the key's row
//     (windows.go). Nobody refuses what another could have let through.
//   - Large limits: a process leases a share of the limit for a second, and counts within its share by
//     itself (shares.go, leases.go). Shares that are live, or were live within the last second, add up to
//     the limit at most, so that there is never more than that; who needs more than its share gets it when
//     others need less, within about two seconds.
//
// The database's clock counts, so that those of the processes need not agree. A process that nobody asks
// runs no statement. When the database does not answer, each process counts by itself for a while, up to
// the whole limit, rather than have requests wait or fail.
//
// What people may try only so often within minutes, such as to guess a password, is counted otherwise: in
// the transaction of each try (tries.go).
package limits

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// window is how far back requests are counted.
	window = time.Second
	// small is the largest limit that is counted with a statement for each request.
	small = 50
	// patience is how long the database may take, and pause how long it is left alone when it takes longer.
	patience, pause = time.Second, 5 * time.Second
	// cleanEvery is how often what nobody asks for any more is forgotten.
	cleanEvery = 10 * time.Second
)

// Limiter counts requests.
type Limiter struct {
	clock  core.Clock
	log    *slog.Logger
	shared *store // nil: nobody else counts
	// aloneUntil is until when the database is left alone, in nanoseconds.
	aloneUntil atomic.Int64
	swept      atomic.Int64 // when the database was, in nanoseconds

	mu       sync.Mutex
	counters map[string]*counter
	cleaned  time.Time
}

// New returns a limiter that has counted nothing. It counts together with those of other processes when
// the database is one that they share. databaseClock stands in for the database's own clock in tests that
// own the time; it is nil otherwise.
func New(d *db.DB, clock, databaseClock core.Clock, log *slog.Logger) *Limiter {
	l := &Limiter{clock: clock, log: log, counters: map[string]*counter{}}
	if d.Shared() {
		l.shared = &store{db: d, clock: databaseClock, process: core.NewID()}
	}
	return l
}

// A Standing is where a caller stands against a limit after one request.
type Usage struct {
	Limit   int
	Current int // requests within the window as far as known, this one included unless it was refused
	Reset   int // whole seconds until the window is empty
	Refused bool
}

// Unused is where somebody stands who has made no request.
func Unused(limit int) Usage { return Usage{Limit: limit, Reset: int(window / time.Second)} }

// Remaining is how many more requests would be let through.
func (s Usage) Remaining() int { return max(0, s.Limit-s.Current) }

func granted(limit, current int) Usage {
	s := Unused(limit)
	s.Current = min(current, limit)
	return s
}

func refused(limit int) Usage {
	s := granted(limit, limit)
	s.Refused = true
	return s
}

// Take counts one request of a key. It waits for the database for a second at most, and for others of the
// key who do.
func (l *Limiter) Take(ctx context.Context, key string, limit int) Usage {
	came := l.clock()
	c := l.lock(key)
	defer c.mu.Unlock()
	now := l.clock()
	switch {
	case l.shared == nil || now.UnixNano() < l.aloneUntil.Load() || now.Sub(came) > patience:
		return c.take(now, limit)
	case limit <= small:
		return l.takeCounted(ctx, c, key, limit, now)
	default:
		return l.takeLeased(ctx, c, key, limit, now)
	}
}

// ask calls the database, and reports whether it answered. It does so even when nobody waits for the
// request any more: the answer counts. Now and then it removes what is in the database for nothing.
func (l *Limiter) ask(ctx context.Context, now time.Time, call func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := call(ctx)
	if swept := l.swept.Load(); err == nil && now.UnixNano() > swept+keep.Nanoseconds() && l.swept.CompareAndSwap(swept, now.UnixNano()) {
		err = l.shared.sweep(ctx)
	}
	if err == nil {
		return true
	}
	l.aloneUntil.Store(now.Add(pause).UnixNano())
	l.log.WarnContext(ctx, "shared rate limits unavailable, counting locally", "error", err)
	return false
}

// lock returns the counter of a key, locked.
func (l *Limiter) lock(key string) *counter {
	for {
		c := l.counter(key)
		c.mu.Lock()
		if !c.forgotten {
			return c
		}
		c.mu.Unlock()
	}
}

func (l *Limiter) counter(key string) *counter {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean()
	c := l.counters[key]
	if c == nil {
		c = &counter{}
		l.counters[key] = c
	}
	return c
}

// clean forgets, now and then, the counters that nothing depends on any more. The caller holds mu.
func (l *Limiter) clean() {
	now := l.clock()
	if now.Sub(l.cleaned) < cleanEvery {
		return
	}
	l.cleaned = now
	for key, c := range l.counters {
		if !c.mu.TryLock() {
			continue // it is being used
		}
		if c.idle(now) {
			c.forgotten = true
			delete(l.counters, key)
		}
		c.mu.Unlock()
	}
}
