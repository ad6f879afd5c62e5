package tasks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// A Timer runs work whose due times are a column in a table of another package, for example the deadlines of jobs. A
// column with an index costs less than a task for each row.
//
// A timer that waits runs no statements. Its process passes it due times with [Timer.Due]; the poll of the bus finds
// those of processes that died. All replicas may do the same work at the same time, so the work must be idempotent.
type Timer struct {
	runner *Runner
	name   string
	next   func(q *db.Q) (time.Time, error)
	fire   func(ctx context.Context) error

	mu    sync.Mutex
	known time.Time // earliest due time that is known; zero: none
	woken chan struct{}
}

// Timer registers work: next returns when the next is due, the zero time for none, and fire does what is due, or some of
// it. When fire fails, it is called again after a delay.
func (r *Runner) Timer(name string, next func(q *db.Q) (time.Time, error), fire func(ctx context.Context) error) *Timer {
	t := &Timer{runner: r, name: name, next: next, fire: fire, woken: make(chan struct{}, 1)}
	r.timers = append(r.timers, t)
	return t
}

// Due tells the timer that work is due at a time. Call it after the commit. A nil timer ignores it.
func (t *Timer) Due(at time.Time) {
	if t == nil || at.IsZero() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known.IsZero() && !at.Before(t.known) {
		return
	}
	t.known = at
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// wait returns how long to wait until work is due, negative for work that is not known yet.
func (t *Timer) wait() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known.IsZero() {
		return -1
	}
	return max(t.known.Sub(t.runner.clock()), 0)
}

// loop does what is due until ctx ends.
func (t *Timer) loop(ctx context.Context) {
	t.Due(t.runner.clock()) // what the process before left
	timer := time.NewTimer(0)
	defer timer.Stop()
	var delay time.Duration
	for ctx.Err() == nil {
		wait := t.wait()
		if wait == 0 {
			delay = t.run(ctx, delay)
			continue
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(min(wait, maxSleep))
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-t.woken:
		}
	}
}

// run does what is due, finds out when more is, and returns the delay before another attempt if it failed.
func (t *Timer) run(ctx context.Context, delay time.Duration) time.Duration {
	t.mu.Lock()
	t.known = time.Time{}
	t.mu.Unlock()
	_, err := t.runDue(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() == nil {
		t.runner.log.Warn("timer failed", "timer", t.name, "error", err)
	}
	delay = min(max(2*delay, time.Second), maxRetryDelay)
	t.Due(t.runner.clock().Add(delay/2 + rand.N(delay/2)))
	return delay
}

// runDue does what is due and reports whether anything was. Afterwards the timer knows when more is due.
func (t *Timer) runDue(ctx context.Context) (ran bool, err error) {
	defer core.CatchPanic(&err)
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	at, err := t.readNext(ctx)
	if err != nil || at.IsZero() || at.After(t.runner.clock()) {
		t.Due(at)
		return false, err
	}
	if err := t.fire(ctx); err != nil {
		return true, err
	}
	at, err = t.readNext(ctx)
	t.Due(at)
	return true, err
}

func (t *Timer) readNext(ctx context.Context) (at time.Time, err error) {
	err = t.runner.db.Read(ctx, func(q *db.Q) (err error) {
		at, err = t.next(q)
		return err
	})
	if err != nil {
		return at, fmt.Errorf("read when timer %s is due: %w", t.name, err)
	}
	return at, nil
}

// poll finds work of processes that died.
func (t *Timer) poll(q *db.Q) error {
	at, err := t.next(q)
	t.Due(at)
	return err
}
