package dispatch

import (
	"context"
	"maps"
	"sync"
	"time"
)

// offered remembers which agents were given a job a moment ago. An agent that comes back so soon may not
// have heard of it.
type offered struct {
	mu      sync.Mutex
	byAgent map[string]time.Time
	many    int // how many there are when old ones are next looked for
}

const (
	// offerAge is how long it is remembered that an agent was given a job. After that the job has been
	// accepted, or has gone back.
	offerAge = 30 * time.Second
	// minMany is how many are remembered before old ones are looked for.
	minMany = 1_000
)

func (o *offered) add(agentID string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.byAgent) >= max(o.many, minMany) {
		maps.DeleteFunc(o.byAgent, func(_ string, at time.Time) bool { return now.Sub(at) > offerAge })
		o.many = 2 * len(o.byAgent)
	}
	o.byAgent[agentID] = now
}

// take reports whether the agent was given a job a moment ago, and forgets it.
func (o *offered) take(agentID string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.byAgent[agentID]
	delete(o.byAgent, agentID)
	return ok && now.Sub(at) <= offerAge
}

// Accepted notes that an agent has heard of the job that it was given. It is not asked about again.
func (d *Dispatcher) Accepted(agentID string) { d.offered.take(agentID, d.clock()) }

// again returns the job that the agent was given a moment ago and has not accepted, or "".
func (d *Dispatcher) again(ctx context.Context, a Agent) (jobID string, err error) {
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
