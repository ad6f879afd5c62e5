package tasks

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/trace"
)

const (
	// minBackoff and maxBackoff bound the time before another attempt; it doubles with each.
	minBackoff, maxBackoff = 2 * time.Second, 15 * time.Minute
	// recordTimeout bounds saving the result of an attempt when the runner stops.
	recordTimeout = 2 * time.Second
	// maxErrorLength is how many bytes of an error are stored with its task.
	maxErrorLength = 1000
)

// handleTx runs tasks and ends them in the same transaction.
func (k *kind) handleTx(fn func(*db.Q, *Due) error) {
	k.prefetch, k.refill, k.slots = txPrefetch, txPrefetch/2, k.runner.txSlots
	k.do = func(ctx context.Context, d *Due) error {
		return k.runner.db.Write(ctx, func(q *db.Q) error {
			if err := fn(q, d); err != nil {
				return err
			}
			return complete(q, d)
		})
	}
}

// handle runs tasks, and ends them afterwards.
func (k *kind) handle(atOnce int, fn func(context.Context, *Due) error) {
	k.prefetch, k.refill, k.slots = atOnce, 1, make(chan struct{}, atOnce)
	k.do = func(ctx context.Context, d *Due) error {
		if err := fn(ctx, d); err != nil {
			return err
		}
		return k.record(ctx, func(q *db.Q) error { return complete(q, d) })
	}
}

// start runs a task on its own goroutine as soon as a slot is free. After ctx has ended it releases the task
// instead, or leaves it until its lease expires when there is no time left.
func (k *kind) start(ctx, work context.Context, d *Due) {
	k.taken.Add(1)
	k.running.Go(func() {
		k.slots <- struct{}{}
		switch {
		case ctx.Err() == nil:
			k.attempt(work, d)
		case work.Err() == nil:
			k.release(work, d)
		}
		<-k.slots
		k.taken.Add(-1)
		select {
		case k.freed <- struct{}{}:
		default:
		}
	})
}

// attempt runs a task once, saves the result, and returns the error.
func (k *kind) attempt(ctx context.Context, d *Due) error {
	log := k.runner.log.With("kind", d.Kind, "key", d.Key, "attempt", d.Attempt)
	err := k.try(ctx, d)
	switch {
	case err == nil:
		k.runner.metrics.done(d, k.runner.clock())
		return nil
	case errors.Is(err, errLost):
		k.runner.metrics.count(d, "lost")
		log.Info("task lease lost", "error", err)
		return nil
	case ctx.Err() != nil:
		k.release(ctx, d)
		return err
	}
	result := k.failed(ctx, d, err)
	k.runner.metrics.count(d, result)
	log.Warn("task failed", "result", result, "error", err)
	return err
}

// try runs the handler with its timeout. A panic becomes an error: it must not end the process, nor every
// process that tries this task.
func (k *kind) try(ctx context.Context, d *Due) (err error) {
	if !k.runner.clock().Before(d.until) {
		return errLost
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	ctx, span := trace.Begin(ctx, trace.Internal, "task "+d.Kind)
	span.Number("stackyard.attempt", int64(d.Attempt))
	defer func() {
		if err != nil {
			span.Fail()
		}
		span.End()
	}()
	defer core.CatchPanic(&err)
	return k.do(ctx, d)
}

// failed saves that an attempt failed, and returns the result for metrics: the task is tried again later or,
// when it is too old, given up.
func (k *kind) failed(ctx context.Context, d *Due, cause error) (result string) {
	now := k.runner.clock()
	result = "failed"
	if k.maxAge > 0 && now.Sub(d.DueAt) >= k.maxAge {
		result = "given up"
	}
	err := k.record(ctx, func(q *db.Q) error {
		if result == "given up" {
			return complete(q, d)
		}
		return fail(q, d, now.Add(backoff(d.Attempt)), storable(cause.Error()))
	})
	if err != nil && !errors.Is(err, errLost) {
		k.runner.log.Warn("save task failure failed, it runs after its lease", "kind", d.Kind, "key", d.Key, "error", err)
	}
	return result
}

func (k *kind) release(ctx context.Context, d *Due) {
	err := k.record(ctx, func(q *db.Q) error { return release(q, d, k.runner.clock()) })
	if err != nil && !errors.Is(err, errLost) {
		k.runner.log.Warn("release task failed, it runs after its lease", "kind", d.Kind, "key", d.Key, "error", err)
	}
}

// record saves the result of an attempt, also when the attempt has used up its time.
func (k *kind) record(ctx context.Context, fn func(*db.Q) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return k.runner.db.Write(ctx, fn)
}

// backoff returns how long to wait after an attempt: twice as long each time, with jitter between half and all
// of it, so that tasks that failed together are not tried together.
func backoff(attempt int) time.Duration {
	d := maxBackoff
	if doublings := attempt - 1; doublings < 20 {
		d = min(minBackoff<<doublings, maxBackoff)
	}
	return d/2 + rand.N(d/2)
}

// storable returns text that both engines can store, cut to maxErrorLength.
func storable(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxErrorLength)], "")
}
