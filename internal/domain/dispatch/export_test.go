package dispatch

import (
	"context"

	"stackyard/internal/platform/db"
)

// Settled reports whether there is nothing to hand out in a queue, as far as is known.
func (d *Dispatcher) Settled(queueID string) bool {
	d.mu.Lock()
	q := d.queues[queueID]
	d.mu.Unlock()
	return q != nil && len(q.poke) == 0 && len(q.woken) == 0 && !q.shouldScan() && q.calm()
}

func (q *queue) calm() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.stale && q.remaining != nil && len(q.assigning) == 0
}

// Poll scans once for jobs without a notification.
func (d *Dispatcher) Poll(ctx context.Context) error { return d.db.Read(ctx, d.poll) }

// A Query is a statement of a look.
type Query struct {
	Text string
	Args []any
}

// Queries are those of a look that finds what to hand out to a number of agents who take jobs of some
// sets of rules.
func Queries(q *db.Q, queueID string, agents int, sets ...string) []Query {
	in, arg := q.In("q.id", 1, []string{queueID})
	var lanes, own []lane
	for _, set := range sets {
		lanes = append(lanes, lane{set: set, wanted: agents})
		own = append(own, lane{set: set, pipelineID: "p", wanted: agents})
	}
	bestOfAll, args := bestQuery(queueID, lanes)
	bestOfOne, ownArgs := bestQuery(queueID, own)
	return []Query{
		{presentRuleSetsSQL(in), []any{arg}}, {bestOfAll, args},
		{bestOfOne, ownArgs}, {pipelinesSQL, []any{queueID, sets[0]}},
	}
}
