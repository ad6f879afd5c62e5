package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"stackyard/internal/db"
)

// pollEvery is how often a process looks whether it has missed that there is something to hand out.
const pollEvery = 5 * time.Second

// Run looks from time to time whether there are jobs that agents wait for here and that nobody has told
// of, until ctx is done. Where only this process serves from the database nothing is ever missed.
func (d *Dispatcher) Run(ctx context.Context) error {
	if !d.db.Shared() {
		<-ctx.Done()
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollEvery - rand.N(pollEvery/5)):
		}
		if err := d.poll(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("cannot look for jobs that nobody has told of", "error", err)
		}
	}
}

// poll asks with one statement, however many queues and agents there are.
func (d *Dispatcher) poll(ctx context.Context) error {
	waited := d.waitedFor()
	if len(waited) == 0 {
		return nil
	}
	ids := make([]string, 0, len(waited))
	for id := range waited {
		ids = append(ids, id)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var sets map[string][]string
	err := d.db.Read(ctx, func(q *db.Q) (err error) {
		sets, err = present(q, ids...)
		return err
	})
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
