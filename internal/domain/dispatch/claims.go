package dispatch

import (
	"context"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

const (
	// claimTimeout bounds one claim.
	claimTimeout = 15 * time.Second
	// claimSize bounds the jobs of one claim.
	claimSize = 250
	// sharedClaims is the number of concurrent claims where each needs a pooled connection, singleClaims where
	// all wait for the single writer, which commits them together.
	sharedClaims, singleClaims = 6, 64
)

// claims assign picked jobs. Jobs of one build are assigned one batch after the other, because each needs the
// build's lock; picks that arrive meanwhile form the next batch. Builds do not wait for each other.
type claims struct {
	dispatcher *Dispatcher
	slots      chan struct{}

	mu      sync.Mutex
	pending map[string][]pick // by build; each has a goroutine
}

func newClaims(d *Dispatcher) *claims {
	atOnce := singleClaims
	if d.db.Shared() {
		atOnce = sharedClaims
	}
	return &claims{dispatcher: d, slots: make(chan struct{}, atOnce), pending: map[string][]pick{}}
}

// add queues picks for assignment.
func (c *claims) add(picks []pick) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range picks {
		id := p.row.buildID
		if _, running := c.pending[id]; !running {
			go c.run(id)
		}
		c.pending[id] = append(c.pending[id], p)
	}
}

// run assigns the jobs of a build until none are left.
func (c *claims) run(buildID string) {
	for {
		c.slots <- struct{}{}
		batch := c.next(buildID)
		if len(batch) > 0 {
			c.claim(buildID, batch)
		}
		<-c.slots
		if len(batch) == 0 {
			return
		}
	}
}

// next takes the next batch of a build; empty when there is nothing left.
func (c *claims) next(buildID string) []pick {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.pending[buildID]
	if len(batch) == 0 {
		delete(c.pending, buildID)
		return nil
	}
	n := min(len(batch), claimSize)
	c.pending[buildID] = batch[n:]
	return batch[:n]
}

// claim assigns jobs of a build and answers the waiters.
func (c *claims) claim(buildID string, batch []pick) {
	ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
	defer cancel()
	d := c.dispatcher
	ids, err := c.assign(ctx, buildID, batch)
	if core.KindOf(err) == core.NotFound {
		err = d.discard(ctx, batch) // the build was deleted
	}
	assigned := make(map[string]bool, len(ids))
	for _, id := range ids {
		assigned[id] = true
	}
	result := "moved"
	if err != nil {
		result = "failed"
		d.log.Warn("assign jobs failed", "build", buildID, "jobs", len(batch), "error", err)
	}
	now := d.clock()
	byQueue := make(map[*queue][]outcome)
	for _, p := range batch {
		if assigned[p.row.jobID] || err != nil { // after an error it is unknown what was committed
			d.offered.add(p.waiter.ID, now)
		}
		if assigned[p.row.jobID] {
			d.metrics.jobs.WithLabelValues("assigned").Inc()
		} else {
			d.metrics.jobs.WithLabelValues(result).Inc()
		}
		byQueue[p.waiter.queue] = append(byQueue[p.waiter.queue], outcome{p, assigned[p.row.jobID]})
	}
	for q, outcomes := range byQueue {
		q.applyOutcomes(outcomes)
	}
}

// assign assigns jobs of a build and returns the ids of those that were assigned. A panic is treated like an
// error: the agents keep waiting.
func (c *claims) assign(ctx context.Context, buildID string, batch []pick) (ids []string, err error) {
	defer core.CatchPanic(&err)
	offers := make([]flow.Offer, len(batch))
	for i, p := range batch {
		offers[i] = flow.Offer{JobID: p.row.jobID, AgentID: p.waiter.ID}
	}
	return c.dispatcher.jobs.Assign(ctx, batch[0].row.organizationID, buildID, offers)
}

// discard removes runnable rows of a deleted build, which would otherwise be picked again until the build is
// removed.
func (d *Dispatcher) discard(ctx context.Context, batch []pick) error {
	ids := make([]string, len(batch))
	for i, p := range batch {
		ids[i] = p.row.jobID
	}
	return d.db.Write(ctx, func(q *db.Q) error { return Remove(q, ids...) })
}

// An outcome is the result of a pick.
type outcome struct {
	pick
	assigned bool
}

// applyOutcomes answers the picked waiters. Those without a job keep waiting.
func (q *queue) applyOutcomes(outcomes []outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lost := 0
	for _, o := range outcomes {
		w, set := o.waiter, o.row.set
		delete(q.assigning, o.row.jobID)
		if q.picked[set]--; q.picked[set] == 0 {
			delete(q.picked, set)
		}
		switch {
		case o.assigned:
			w.answer <- o.row.jobID
			continue
		case w.leaving:
			w.answer <- ""
		default:
			w.picked = false
			q.enqueue(w)
		}
		lost++
	}
	if lost < len(outcomes) {
		q.backoff.reset()
	} else {
		q.backoff.increase()
	}
	if lost > 0 {
		q.stale = true
		q.wake()
	}
}
