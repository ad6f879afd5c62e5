package tasks

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// scanGap is the minimum time between two scans that find nothing to do, so that the runner does not scan
	// for each of many tasks that are added for later.
	scanGap = 20 * time.Millisecond
	// maxSleep is how long a runner sleeps before it checks the clock, not the database: timers do not run
	// while a machine is suspended.
	maxSleep = time.Minute
	// maxRetryDelay bounds the time between two scans when the database is unavailable.
	maxRetryDelay = 15 * time.Second
)

// kind is one kind of tasks with its handler. Each has its own loop, so that a busy or slow kind does not delay
// others.
type kind struct {
	runner    *Runner
	name      string
	timeout   time.Duration
	maxAge    time.Duration
	perpetual bool          // there is always one task
	prefetch  int           // maximum number of claimed tasks that are not done
	refill    int           // how many of these must be free before more are claimed
	slots     chan struct{} // one for each task that runs at the same time
	do        func(ctx context.Context, d *Due) error

	taken   atomic.Int64
	freed   chan struct{}  // holds a token when a claimed task was done
	hints   chan time.Time // holds when a task may be due whose notification was lost
	running sync.WaitGroup

	// Used by the loop only.
	next       time.Time // time of the next scan; zero: when woken
	scannedAt  time.Time
	busy       bool // the last scan claimed as many as it could
	retryDelay time.Duration
}

// loop claims due tasks and runs them until ctx ends. work is the context of started tasks.
func (k *kind) loop(ctx, work context.Context) {
	defer k.running.Wait()
	woken, cancel := k.runner.bus.Subscribe(topic(k.name))
	defer cancel()
	k.next = k.runner.clock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := k.runner.clock()
		isDue := !k.next.IsZero() && !now.Before(k.next)
		if limit := k.free(); isDue && limit >= k.refill {
			k.scan(ctx, work, limit)
			continue
		}
		timer.Stop()
		if !isDue && !k.next.IsZero() {
			timer.Reset(min(k.next.Sub(now), maxSleep))
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-k.freed:
		case <-woken:
			k.next = sooner(k.next, k.scannedAt.Add(scanGap))
		case at := <-k.hints:
			k.next = sooner(k.next, later(at, k.scannedAt.Add(scanGap)))
		}
	}
}

// free returns how many more tasks can be claimed.
func (k *kind) free() int { return k.prefetch - int(k.taken.Load()) }

// scan claims up to limit due tasks, starts them, and sets the time of the next scan.
func (k *kind) scan(ctx, work context.Context, limit int) {
	now := k.runner.clock()
	k.scannedAt = now
	due, next, err := k.take(ctx, now, limit)
	if err != nil {
		if ctx.Err() == nil {
			k.retryDelay = min(max(2*k.retryDelay, scanGap), maxRetryDelay)
			k.next = now.Add(k.retryDelay/2 + rand.N(k.retryDelay/2))
			k.runner.log.Warn("scan tasks failed", "kind", k.name, "error", err)
		}
		return
	}
	k.retryDelay = 0
	for _, d := range due {
		k.start(ctx, work, d)
	}
	if k.busy = len(due) == limit; k.busy {
		k.next = now
		return
	}
	if !next.IsZero() && next.Before(now.Add(scanGap)) { // another process is about to claim or change it
		next = now.Add(scanGap)
	}
	k.next = next
}

// take claims due tasks. If there are fewer than limit, it returns when the next is due. A scan that probably
// finds nothing only reads.
func (k *kind) take(ctx context.Context, now time.Time, limit int) (due []*Due, next time.Time, err error) {
	if !k.busy {
		err := k.runner.db.Read(ctx, func(q *db.Q) (err error) {
			next, err = nextRun(q, k.name)
			return err
		})
		missing := k.perpetual && next.IsZero()
		if err != nil || !missing && (next.IsZero() || next.After(now)) {
			return nil, next, err
		}
	}
	return k.claim(ctx, limit)
}

// claim claims up to limit due tasks. If there are fewer, it returns when the next is due.
func (k *kind) claim(ctx context.Context, limit int) (due []*Due, next time.Time, err error) {
	now := k.runner.clock()
	err = k.runner.db.Write(ctx, func(q *db.Q) (err error) {
		if k.perpetual {
			if err := ensure(q, k.name, now); err != nil {
				return err
			}
		}
		due, err = claim(q, k.name, k.runner.token(core.NewID()), now, now.Add(k.timeout+leaseMargin), limit)
		if err != nil || len(due) == limit {
			return err
		}
		next, err = nextRun(q, k.name)
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return due, next, nil
}

// sooner returns the earlier of two times; the zero time means none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
