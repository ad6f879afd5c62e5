package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// txTimeout bounds a handler of HandleTx, which mostly waits for locks and for the writer.
	txTimeout = 20 * time.Second
	// leaseMargin is how much longer a lease is than the timeout of an attempt.
	leaseMargin = 15 * time.Second
	// txPrefetch is how many tasks of a kind of HandleTx a runner claims together; txAtOnce is how many of
	// them, of all kinds, it runs at the same time.
	txPrefetch, txAtOnce = 64, 8
	// callsAtOnce is how many tasks of a kind of Handle run at the same time. No more are claimed, because
	// another replica may have capacity for them.
	callsAtOnce = 16
	// stopGrace is how long handlers of Handle can continue when the runner stops.
	stopGrace = 4 * time.Second
)

// Runner runs the tasks of the kinds that it has handlers for. Tasks of other kinds wait for a runner that has
// one. Register handlers before Run.
type Runner struct {
	db      *db.DB
	bus     *bus.Bus
	clock   core.Clock
	log     *slog.Logger
	metrics metrics
	kinds   []*kind
	timers  []*Timer
	txSlots chan struct{}
}

// New returns a runner without handlers.
func New(d *db.DB, b *bus.Bus, clock core.Clock, log *slog.Logger, metrics prometheus.Registerer) *Runner {
	return &Runner{
		db:      d,
		bus:     b,
		clock:   clock,
		log:     log,
		metrics: newMetrics(metrics),
		txSlots: make(chan struct{}, txAtOnce),
	}
}

// HandleTx registers fn for tasks of a kind. fn runs in one transaction with the end of the task. An error
// rolls everything back; the task is tried again later, without limit. The rules for functions given to
// [db.DB.Write] apply. If fn adds its own task again, it runs again at that time.
func (r *Runner) HandleTx(kind string, fn func(q *db.Q, t *Due) error) {
	r.register(kind, txTimeout, 0).handleTx(fn)
}

// Limits bound the attempts of a kind of [Runner.Handle].
type Limits struct {
	// Timeout bounds one attempt; then its context ends.
	Timeout time.Duration
	// MaxAge is how long after it was due a task is tried again; then it is given up. Zero is forever.
	MaxAge time.Duration
	// AtOnce is how many tasks of the kind are done at the same time; 0 is the default.
	AtOnce int
}

// Handle registers fn for tasks of a kind. fn can make network calls. It runs again when it fails, and
// sometimes when it did not. It must return soon after its context ends.
func (r *Runner) Handle(kind string, limits Limits, fn func(ctx context.Context, t *Due) error) {
	r.register(kind, limits.Timeout, limits.MaxAge).handle(cmp.Or(limits.AtOnce, callsAtOnce), fn)
}

// Sweep registers fn to run repeatedly: at once while it returns that there is more to do, otherwise after some
// time. Each run is its own transaction, so that large work, for example deleting old rows, is done in small
// batches with other writes in between. One of all replicas sweeps at a time.
func (r *Runner) Sweep(name string, every time.Duration, fn func(q *db.Q) (more bool, err error)) {
	k := r.register(name, txTimeout, 0)
	k.perpetual = true
	k.handleTx(func(q *db.Q, t *Due) error {
		more, err := fn(q)
		if err != nil {
			return err
		}
		next := r.clock()
		if !more {
			next = next.Add(every)
		}
		return Add(q, Task{Kind: t.Kind, Key: t.Key, RunAt: next})
	})
}

// Repeat is Sweep for work that is not a transaction of the runner's database: fn makes its own, and may take up to
// timeout.
func (r *Runner) Repeat(name string, every, timeout time.Duration, fn func(ctx context.Context) (more bool, err error)) {
	k := r.register(name, timeout, 0)
	k.perpetual = true
	k.prefetch, k.refill, k.slots = 1, 1, make(chan struct{}, 1)
	k.do = func(ctx context.Context, t *Due) error {
		more, err := fn(ctx)
		if err != nil {
			return err
		}
		next := r.clock()
		if !more {
			next = next.Add(every)
		}
		return k.record(ctx, func(q *db.Q) error {
			if err := Add(q, Task{Kind: t.Kind, Key: t.Key, RunAt: next}); err != nil {
				return err
			}
			return complete(q, t)
		})
	}
}

func (r *Runner) register(name string, timeout, maxAge time.Duration) *kind {
	for _, k := range r.kinds {
		if k.name == name {
			panic("tasks: two handlers for " + name)
		}
	}
	k := &kind{runner: r, name: name, timeout: timeout, maxAge: maxAge, freed: make(chan struct{}, 1), hints: make(chan time.Time, 1)}
	r.kinds = append(r.kinds, k)
	return k
}

// Run runs tasks until ctx ends. Then it claims no more, releases those that have not started, waits for the
// others, and returns.
func (r *Runner) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()
	defer r.bus.OnPoll(r.poll)()
	r.releaseOrphans(ctx)
	var loops sync.WaitGroup
	if r.db.Shared() {
		loops.Go(func() { r.watchOrphans(ctx) })
	}
	for _, k := range r.kinds {
		loops.Go(func() { k.loop(ctx, work) })
	}
	for _, t := range r.timers {
		loops.Go(func() { t.loop(ctx) })
	}
	loops.Wait()
	return nil
}

// releaseOrphans makes tasks due that a process which died was running, where no other process can be running them: a
// SQLite database has one server.
func (r *Runner) releaseOrphans(ctx context.Context) {
	if r.db.Shared() {
		return
	}
	err := r.db.Write(ctx, func(q *db.Q) error { return releaseAll(q, r.clock()) })
	if err != nil && ctx.Err() == nil {
		r.log.Warn("release tasks of the previous process failed", "error", err)
	}
}

// RunDue runs, one after the other, the tasks that are due at the time of the clock and those that become due
// by running them. It returns the errors of handlers. It is for tests with an injected clock.
func (r *Runner) RunDue(ctx context.Context) error {
	var failures []error
	for {
		ran := 0
		for _, k := range r.kinds {
			due, _, err := k.claim(ctx, 1)
			if err != nil {
				return err
			}
			for _, d := range due {
				ran++
				if err := k.attempt(ctx, d); err != nil {
					failures = append(failures, fmt.Errorf("task %s %s: %w", d.Kind, d.Key, err))
				}
			}
		}
		for _, t := range r.timers {
			fired, err := t.runDue(ctx)
			if err != nil {
				return errors.Join(append(failures, fmt.Errorf("timer %s: %w", t.name, err))...)
			}
			if fired {
				ran++
			}
		}
		if ran == 0 {
			return errors.Join(failures...)
		}
	}
}
