package dispatch

import (
	"context"
	"maps"
	"sync"
	"time"
)

// offered records which agents were just given a job. An agent that asks again so soon may not know about it.
type offered struct {
	mu      sync.Mutex
	byAgent map[string]time.Time
	sweepAt int // size at which old entries are removed next
}

const (
	// offerAge is how long an entry is kept. After that, the job was accepted or returned to the queue.
	offerAge = 30 * time.Second
	// minSweep is the minimum size before old entries are removed.
	minSweep = 1_000
)

func (o *offered) add(agentID string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.byAgent) >= max(o.sweepAt, minSweep) {
		maps.DeleteFunc(o.byAgent, func(_ string, at time.Time) bool { return now.Sub(at) > offerAge })
		o.sweepAt = 2 * len(o.byAgent)
	}
	o.byAgent[agentID] = now
}

// take reports whether the agent was just given a job, and removes the entry.
func (o *offered) take(agentID string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.byAgent[agentID]
	delete(o.byAgent, agentID)
	return ok && now.Sub(at) <= offerAge
}

// Accepted records that an agent knows about the job it was given.
func (d *Dispatcher) Accepted(agentID string) { d.offered.take(agentID, d.clock()) }

// reoffer returns the job that the agent was just given and has not accepted, or "".
func (d *Dispatcher) reoffer(ctx context.Context, a Agent) (jobID string, err error) {
	now := d.clock()
	if !d.offered.take(a.ID, now) {
		return "", nil
	}
	jobID, err = d.jobs.AssignedTo(ctx, a.OrganizationID, a.ID)
	if jobID != "" || err != nil {
		d.offered.add(a.ID, now)
	}
	if ctx.Err() != nil {
		return "", nil
	}
	return jobID, err
}
