package tasks

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"stackyard/internal/platform/db"
)

const (
	// lookGap is the least time between two looks that find nothing to do. Where many tasks are added
	// for later, the runner does not look for each.
	lookGap = 20 * time.Millisecond
	// longestNap is how long a runner sleeps before it looks at the clock, not at the database: while
	// a machine is suspended, timers stand still.
	longestNap = time.Minute
	// maxTrouble bounds the time between two looks when the database is away.
	maxTrouble = 15 * time.Second
)

// kind is one kind of tasks with its handler. Each has a loop of its own, so that a kind with much to
// do, or one that is slow, keeps no other waiting.
type kind struct {
	runner    *Runner
	name      string
	timeout   time.Duration
	maxAge    time.Duration
	perpetual bool          // there is always one task
	prefetch  int           // how many may be taken and not yet done
	refill    int           // how many of these must be free before more are taken
	slots     chan struct{} // one for each that may be done at the same time
	do        func(ctx context.Context, d *Due) error

	taken   atomic.Int64
	freed   chan struct{}  // holds a token when something taken was done
	hints   chan time.Time // holds when a task may be due that nobody has told of
	running sync.WaitGroup

	// Of the loop alone.
	next    time.Time // when to look; the zero time for not before being woken
	looked  time.Time
	busy    bool // the last look found as much as it had room for
	trouble time.Duration
}

// loop takes tasks that are due and has them done, until ctx is done. work is the context of what it
// has begun.
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
		if room := k.room(); isDue && room >= k.refill {
			k.look(ctx, work, room)
			continue
		}
		timer.Stop()
		if !isDue && !k.next.IsZero() {
			timer.Reset(min(k.next.Sub(now), longestNap))
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-k.freed:
		case <-woken:
			k.next = sooner(k.next, k.looked.Add(lookGap))
		case at := <-k.hints:
			k.next = sooner(k.next, later(at, k.looked.Add(lookGap)))
		}
	}
}

// room is how many more tasks may be taken.
func (k *kind) room() int { return k.prefetch - int(k.taken.Load()) }

// look takes what is due, as far as there is room, and decides when to look again.
func (k *kind) look(ctx, work context.Context, room int) {
	now := k.runner.clock()
	k.looked = now
	due, next, err := k.take(ctx, now, room)
	if err != nil {
		if ctx.Err() == nil {
			k.trouble = min(max(2*k.trouble, lookGap), maxTrouble)
			k.next = now.Add(k.trouble/2 + rand.N(k.trouble/2))
			k.runner.log.Warn("scan tasks failed", "kind", k.name, "error", err)
		}
		return
	}
	k.trouble = 0
	for _, d := range due {
		k.start(ctx, work, d)
	}
	if k.busy = len(due) == room; k.busy {
		k.next = now
		return
	}
	if !next.IsZero() && next.Before(now.Add(lookGap)) { // somebody else is about to take it or change it
		next = now.Add(lookGap)
	}
	k.next = next
}

// take claims what is due. When that is not all that there was room for, it returns when to look for
// the next. A look that is likely to find nothing only reads.
func (k *kind) take(ctx context.Context, now time.Time, room int) (due []*Due, next time.Time, err error) {
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
	return k.claim(ctx, room)
}

// claim takes up to limit tasks that are due, and if there are no more returns when the next will be.
func (k *kind) claim(ctx context.Context, limit int) (due []*Due, next time.Time, err error) {
	now := k.runner.clock()
	err = k.runner.db.Write(ctx, func(q *db.Q) (err error) {
		if k.perpetual {
			if err := ensure(q, k.name, now); err != nil {
				return err
			}
		}
		due, err = claim(q, k.name, now, now.Add(k.timeout+leaseMargin), limit)
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

// sooner returns the earlier of two times, of which the zero time is none.
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
