package dispatch

import (
	"context"

	"stackyard/internal/db"
)

// Run has the bus ask from time to time whether there are jobs that agents wait for here and that nobody
// has told of, until ctx is done. Where only this process serves from the database nothing is ever missed.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.bus.OnPoll(d.poll)()
	<-ctx.Done()
	return nil
}

// poll asks with one statement, however many queues and agents there are.
func (d *Dispatcher) poll(q *db.Q) error {
	waited := d.waitedFor()
	if len(waited) == 0 {
		return nil
	}
	ids := make([]string, 0, len(waited))
	for id := range waited {
		ids = append(ids, id)
	}
	sets, err := present(q, ids...)
	for id, q := range waited {
		q.compare(sets[id])
	}
	return err
}

// waitedFor returns the queues in which somebody waits.
func (d *Dispatcher) waitedFor() map[string]*queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	waited := make(map[string]*queue)
	for _, w := range d.waiters {
		waited[w.QueueID] = w.queue
	}
	return waited
}

// compare looks again when jobs have sets of rules that were not there at the last look.
func (q *queue) compare(sets []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left == nil {
		return // it is looking
	}
	for _, set := range sets {
		if _, known := q.left[set]; !known {
			q.stale = true
			q.prod()
			return
		}
	}
}
