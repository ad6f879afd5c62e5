package delivery

import (
	"cmp"
	"context"
	"errors"
	"time"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// record writes results in one transaction and makes way for what follows on them.
func (w *worker) record(ctx context.Context, list []result) error {
	now := w.Clock()
	var settled []*Delivery
	var failed error
	for _, r := range list {
		d := r.delivery
		switch {
		case errors.Is(r.err, errGone):
			d.fail(errGone.Error(), now)
		case r.err != nil:
			failed = errors.Join(failed, r.err)
			continue
		default:
			d.settle(r.answer, r.took, now)
			w.failures.note(r.answer, now)
			w.broken = cmp.Or(w.broken, r.answer.Broken)
			if w.host == "" && w.failures.broken(now) {
				w.broken = cmp.Or(w.broken, d.Error)
			}
		}
		settled = append(settled, d)
	}
	if len(settled) == 0 {
		return failed
	}
	if err := w.save(ctx, settled, now); err != nil {
		return err
	}
	for _, d := range settled {
		delete(w.busy, d.OrderKey)
		if d.State != Pending {
			w.remove(d)
		}
	}
	return failed
}

// remove takes a delivery that has ended out of its queue.
func (w *worker) remove(d *Delivery) {
	w.size--
	if rest := w.queues[d.OrderKey][1:]; len(rest) > 0 {
		w.queues[d.OrderKey] = rest
		return
	}
	delete(w.queues, d.OrderKey)
	for i, key := range w.keys {
		if key == d.OrderKey {
			w.keys = append(w.keys[:i], w.keys[i+1:]...)
			return
		}
	}
}

const (
	// saveTries is how often saving results is tried: what is not saved is sent again.
	saveTries   = 5
	saveTimeout = 5 * time.Second
)

// save writes deliveries after attempts, also while the worker is stopping.
func (w *worker) save(ctx context.Context, list []*Delivery, now time.Time) (err error) {
	for _, d := range list {
		if d.State != Pending {
			w.ended++
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	for try := range saveTries {
		err = w.DB.Write(ctx, func(q *db.Q) error {
			if err := update(q, list); err != nil {
				return err
			}
			if err := saveFailures(q, w.receiver.ID, w.failures); err != nil {
				return err
			}
			if w.broken != "" {
				if err := w.markBroken(q, w.broken, now); err != nil {
					return err
				}
			}
			if w.ended < trimEvery {
				return nil
			}
			return trim(q, w.receiver.ID)
		})
		if err == nil {
			if w.ended >= trimEvery {
				w.ended = 0
			}
			return nil
		}
		pause(ctx, time.Duration(try)*100*time.Millisecond)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// markBroken stops notifications to the receiver. The task, which runs once more, gives up what is pending.
func (w *worker) markBroken(q *db.Q, reason string, now time.Time) error {
	if err := notifications.MarkBroken(q, w.org.ID, w.receiver.ID, reason, now); err != nil {
		return err
	}
	if err := w.updateWanted(q, w.org.ID); err != nil {
		return err
	}
	return tasks.Add(q, w.task(now))
}

// finish has the rest sent when it is due.
func (w *worker) finish(ctx context.Context) error {
	next, pending := w.due()
	if !pending && w.ended == 0 {
		return nil
	}
	return w.DB.Write(ctx, func(q *db.Q) error {
		if pending {
			if err := tasks.Add(q, w.task(next)); err != nil {
				return err
			}
		}
		if w.ended == 0 {
			return nil
		}
		return trim(q, w.receiver.ID)
	})
}

// due returns when there is something to send next, and whether there is.
func (w *worker) due() (at time.Time, pending bool) {
	now := w.Clock()
	if w.more && w.size < windowSize {
		at, pending = now, true
	}
	for _, key := range w.keys {
		if head := w.queues[key][0].NextAttemptAt; !pending || head.Before(at) {
			at, pending = head, true
		}
	}
	if at.Before(w.failures.nextAttemptAt) {
		at = w.failures.nextAttemptAt
	}
	if at.Before(now) {
		at = now
	}
	return at, pending
}
