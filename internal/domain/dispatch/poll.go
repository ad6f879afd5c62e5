package dispatch

import (
	"context"

	"stackyard/internal/platform/db"
)

// Run polls for jobs whose notification was lost, until ctx is done. With a single process on the database
// there is nothing to miss.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.bus.OnPoll(d.poll)()
	<-ctx.Done()
	return nil
}

// poll uses one statement for all queues and agents.
func (d *Dispatcher) poll(q *db.Q) error {
	waited := d.activeQueues()
	if len(waited) == 0 {
		return nil
	}
	ids := make([]string, 0, len(waited))
	for id := range waited {
		ids = append(ids, id)
	}
	sets, err := presentRuleSets(q, ids...)
	for id, q := range waited {
		q.markStaleIfNew(sets[id])
	}
	return err
}

// activeQueues returns the queues with waiters.
func (d *Dispatcher) activeQueues() map[string]*queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	waited := make(map[string]*queue)
	for _, w := range d.waiters {
		waited[w.QueueID] = w.queue
	}
	return waited
}

// markStaleIfNew marks the queue stale when there are rule sets that the last scan did not leave.
func (q *queue) markStaleIfNew(sets []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.remaining == nil {
		return // a scan is running
	}
	for _, set := range sets {
		if _, known := q.remaining[set]; !known {
			q.stale = true
			q.wake()
			return
		}
	}
}
