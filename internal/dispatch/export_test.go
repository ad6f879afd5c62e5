package dispatch

import "context"

// Settled reports whether there is nothing to hand out in a queue, as far as is known.
func (d *Dispatcher) Settled(queueID string) bool {
	d.mu.Lock()
	q := d.queues[queueID]
	d.mu.Unlock()
	return q != nil && len(q.poke) == 0 && len(q.woken) == 0 && !q.worth() && q.calm()
}

func (q *queue) calm() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.stale && len(q.taken) == 0
}

// Poll looks once for jobs that nobody has told of.
func (d *Dispatcher) Poll(ctx context.Context) error { return d.poll(ctx) }
