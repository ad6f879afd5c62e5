// Package limits counts requests against limits per second, separately for each key. A limit applies to every
// sliding second: in no period of one second are more requests granted. A refused request does not count.
//
// In a single process a counter in memory has the times of the granted requests (counter.go). Processes that
// share a database count together, in one of two ways:
//
//   - Small limits: one statement per request, which reads and writes the times in the key's row
//     (windows.go). No process refuses a request that another would grant.
//   - Large limits: a process leases a share of the limit for a second, and counts within its share by
//     itself (shares.go, leases.go). Shares that are live, or were live within the last second, add up to
//     the limit at most. A process that needs more than its share gets it within about two seconds when
//     others need less.
//
// The database's clock decides, so the clocks of the processes can differ. Without requests a process runs no
// statements. When the database does not answer, each process counts by itself for a while, up to the whole
// limit, so that requests neither wait nor fail.
//
// Attempts that are limited within minutes, for example to guess a password, are counted in another way: in the
// transaction of each attempt (tries.go).
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
	// window is the period in which requests are counted.
	window = time.Second
	// small is the largest limit that is counted with a statement per request.
	small = 50
	// databaseTimeout bounds a call of the database; localPeriod is how long requests are counted locally after
	// a failed one.
	databaseTimeout, localPeriod = time.Second, 5 * time.Second
	// cleanEvery is how often unused counters are removed.
	cleanEvery = 10 * time.Second
)

// Limiter counts requests.
type Limiter struct {
	clock  core.Clock
	log    *slog.Logger
	shared *store // nil: no other process counts
	// localUntil is until when requests are counted locally, in nanoseconds.
	localUntil atomic.Int64
	swept      atomic.Int64 // time of the last sweep of the database, in nanoseconds

	mu       sync.Mutex
	counters map[string]*counter
	cleaned  time.Time
}

// New returns a limiter. It counts together with those of other processes that share the database.
// databaseClock replaces the database's clock in tests; it is nil otherwise.
func New(d *db.DB, clock, databaseClock core.Clock, log *slog.Logger) *Limiter {
	l := &Limiter{clock: clock, log: log, counters: map[string]*counter{}}
	if d.Shared() {
		l.shared = &store{db: d, clock: databaseClock, process: core.NewID()}
	}
	return l
}

// Usage is how much of a limit a caller has used, after one request.
type Usage struct {
	Limit   int
	Current int // requests within the window as far as known, including this one unless it was refused
	Reset   int // whole seconds until the window is empty
	Refused bool
}

// Unused returns the usage of a caller without requests.
func Unused(limit int) Usage { return Usage{Limit: limit, Reset: int(window / time.Second)} }

// Remaining returns how many more requests would be granted.
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

// Take counts one request of a key. It waits for the database for a second at most, and for other requests of
// the key that do.
func (l *Limiter) Take(ctx context.Context, key string, limit int) Usage {
	came := l.clock()
	c := l.lock(key)
	defer c.mu.Unlock()
	now := l.clock()
	switch {
	case l.shared == nil || now.UnixNano() < l.localUntil.Load() || now.Sub(came) > databaseTimeout:
		return c.take(now, limit)
	case limit <= small:
		return l.takeCounted(ctx, c, key, limit, now)
	default:
		return l.takeLeased(ctx, c, key, limit, now)
	}
}

// callDatabase calls the database and reports whether it answered. It completes even when the request is
// canceled, because the result counts. From time to time it removes unused rows.
func (l *Limiter) callDatabase(ctx context.Context, now time.Time, call func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
	defer cancel()
	err := call(ctx)
	if swept := l.swept.Load(); err == nil && now.UnixNano() > swept+keep.Nanoseconds() && l.swept.CompareAndSwap(swept, now.UnixNano()) {
		err = l.shared.sweep(ctx)
	}
	if err == nil {
		return true
	}
	l.localUntil.Store(now.Add(localPeriod).UnixNano())
	l.log.WarnContext(ctx, "shared rate limits unavailable, counting locally", "error", err)
	return false
}

// lock returns the counter of a key, locked.
func (l *Limiter) lock(key string) *counter {
	for {
		c := l.counter(key)
		c.mu.Lock()
		if !c.removed {
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

// clean removes unused counters from time to time. The caller holds mu.
func (l *Limiter) clean() {
	now := l.clock()
	if now.Sub(l.cleaned) < cleanEvery {
		return
	}
	l.cleaned = now
	for key, c := range l.counters {
		if !c.mu.TryLock() {
			continue // in use
		}
		if c.idle(now) {
			c.removed = true
			delete(l.counters, key)
		}
		c.mu.Unlock()
	}
}
