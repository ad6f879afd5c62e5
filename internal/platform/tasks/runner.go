package tasks

import (
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
	// txTimeout bounds a handler of HandleTx, which mostly waits for locks and for its turn to write.
	txTimeout = 20 * time.Second
	// leaseMargin is how much longer a lease is than an attempt may take.
	leaseMargin = 15 * time.Second
	// txPrefetch is how many tasks of a kind a runner takes together where each is quickly done, and
	// txAtOnce how many of them, of all kinds, it does at the same time.
	txPrefetch, txAtOnce = 64, 8
	// callsAtOnce is how many tasks of a kind that calls out are done at the same time. No more are
	// taken, because another replica may have time for them.
	callsAtOnce = 16
	// stopGrace is how long calls may go on when the runner is told to stop.
	stopGrace = 4 * time.Second
)

// Runner does the tasks of the kinds it has handlers for. Tasks of other kinds wait for a runner
// that knows them. Handlers are registered before Run.
type Runner struct {
	db       *db.DB
	bus      *bus.Bus
	clock    core.Clock
	log      *slog.Logger
	measures measures
	kinds    []*kind
	txSlots  chan struct{}
}

// New returns a runner without handlers.
func New(d *db.DB, b *bus.Bus, clock core.Clock, log *slog.Logger, metrics prometheus.Registerer) *Runner {
	return &Runner{
		db:       d,
		bus:      b,
		clock:    clock,
		log:      log,
		measures: newMeasures(metrics),
		txSlots:  make(chan struct{}, txAtOnce),
	}
}

// HandleTx has tasks of a kind done by fn, in one transaction with the end of the task. An error
// rolls everything back and the task is tried again later, for as long as it takes. The rules for
// functions given to [db.DB.Write] hold. If fn adds its own task again, it is run again at that time.
func (r *Runner) HandleTx(kind string, fn func(q *db.Q, t *Due) error) {
	r.register(kind, txTimeout, 0).handleTx(fn)
}

// Limits say how long a kind of work that calls out may take.
type Limits struct {
	// Timeout is that of one attempt; then its context is done.
	Timeout time.Duration
	// MaxAge is how long after it was due a task is tried again; then it is given up. Zero is for
	// ever.
	MaxAge time.Duration
}

// Handle has tasks of a kind done by fn, which may call out and is repeated when it fails, and at
// times when it did not. It must return soon after its context is done.
func (r *Runner) Handle(kind string, limits Limits, fn func(ctx context.Context, t *Due) error) {
	r.register(kind, limits.Timeout, limits.MaxAge).handle(fn)
}

// Sweep has fn run again and again: at once while it says that there is more to do, and else after
// some time. Each run is a transaction of its own, so that something large, such as removing what is
// too old, is done in small pieces that let others write in between. Of all replicas one sweeps.
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

// Run does tasks until ctx is done. Then it takes no more, gives back those it has not begun, lets
// the others end, and returns.
func (r *Runner) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()
	defer r.bus.OnPoll(r.glance)()
	var loops sync.WaitGroup
	for _, k := range r.kinds {
		loops.Go(func() { k.loop(ctx, work) })
	}
	loops.Wait()
	return nil
}

// RunDue does, one after the other, the tasks that are due at the time of the clock and those that
// become so by doing them. It returns the errors of handlers. It is for those who own the time.
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
		if ran == 0 {
			return errors.Join(failures...)
		}
	}
}
