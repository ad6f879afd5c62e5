// Package dispatch hands jobs to agents.
//
// What can be handed out is a table of its own, runnable: one narrow row for each command job that is
// scheduled, written in the transaction in which the job becomes so, and removed in the one in which it
// stops being so (runnable.go). Finding the best job never looks at anything else, so it costs the same
// however many builds there have been.
//
// What a job asks of its agent is its queue and a set of rules (rules.go). Sets are named by a hash of
// the rules, and lead the index: the best job that an agent can take is the first row of one of the sets
// that the agent satisfies, and rows that nobody who waits can take are never read (look.go).
//
// Agents wait, by the thousand, and cost nothing while they do (queue.go). Each process remembers of a
// queue which sets had rows when it last looked, and the bus says when that may have changed. Then one
// look matches the best jobs with the best agents that wait (match.go): each job wakes one agent. The
// jobs are claimed by build, many at once (claims.go). What another process was faster to claim is
// skipped, and its agent goes on waiting. Where an organization wants it, pipelines take turns (share.go).
//
// The word of the bus can be lost between processes, so those that share a database look with its poll
// as well, with one statement for all their queues (poll.go).
package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/bus"
	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/flow"
	"stackyard/internal/identity"
)

// An Agent is one that waits for a job.
type Agent struct {
	ID             string
	OrganizationID string
	QueueID        string
	Tags           []string  // each key=value; what they say of the queue does not matter
	Priority       *int      // the highest gets jobs first; nil: after all others
	IdleSince      time.Time // of those with the same priority, who waits for longest gets jobs first
	FairShare      identity.FairShare
}

// Jobs is what becomes of jobs that are handed out.
type Jobs struct {
	// Assign offers scheduled jobs of a build to agents, all in one transaction, and returns the ids of
	// those that are assigned now. Jobs that have moved meanwhile are left out.
	Assign func(ctx context.Context, orgID, buildID string, offers []flow.Offer) (assigned []string, err error)
	// AssignedTo returns the job that was offered to an agent and not accepted yet, or "".
	AssignedTo func(ctx context.Context, orgID, agentID string) (jobID string, err error)
}

// Dispatcher hands out jobs to the agents that wait in this process. It is safe for concurrent use.
type Dispatcher struct {
	db       *db.DB
	bus      *bus.Bus
	clock    core.Clock
	log      *slog.Logger
	jobs     Jobs
	measures measures
	rules    RuleBook
	claims   *claims
	offered  offered

	mu      sync.Mutex
	queues  map[string]*queue
	waiters map[string]*waiter // by agent
}

// New returns a dispatcher.
func New(d *db.DB, b *bus.Bus, clock core.Clock, log *slog.Logger, metrics prometheus.Registerer, jobs Jobs) *Dispatcher {
	dispatcher := &Dispatcher{
		db:       d,
		bus:      b,
		clock:    clock,
		log:      log,
		jobs:     jobs,
		measures: newMeasures(metrics),
		offered:  offered{byAgent: map[string]time.Time{}},
		queues:   map[string]*queue{},
		waiters:  map[string]*waiter{},
	}
	dispatcher.claims = newClaims(dispatcher)
	return dispatcher
}

// Wait returns a job that has been assigned to the agent, or "" when ctx ended before there was one. An
// agent that waits twice gets its job where it waited last. A job that was assigned to the agent just
// before, and whose word may not have reached it, is returned again at once.
func (d *Dispatcher) Wait(ctx context.Context, a Agent) (jobID string, err error) {
	return d.wait(ctx, a, false)
}

// Try is like Wait, except that it returns "" as soon as it is known that there is no job for the agent.
func (d *Dispatcher) Try(ctx context.Context, a Agent) (jobID string, err error) {
	return d.wait(ctx, a, true)
}

func (d *Dispatcher) wait(ctx context.Context, a Agent, brief bool) (jobID string, err error) {
	var w *waiter
	for w == nil {
		d.supersede(a.ID)
		if jobID, err := d.again(ctx, a); jobID != "" || err != nil {
			return jobID, err
		}
		if ctx.Err() != nil {
			return "", nil
		}
		w = d.enter(a, brief)
	}
	defer d.leave(w)
	select {
	case jobID = <-w.answer:
	case <-ctx.Done():
		// If a job is being assigned to it at this moment, that is what it gets.
		if !w.queue.remove(w) {
			jobID = <-w.answer
		}
	}
	return jobID, nil
}

// supersede ends the wait of an agent that waits elsewhere in this process.
func (d *Dispatcher) supersede(agentID string) {
	d.mu.Lock()
	w := d.waiters[agentID]
	d.mu.Unlock()
	if w == nil {
		return
	}
	if w.queue.remove(w) {
		w.answer <- ""
	}
	<-w.gone
}

// enter adds an agent to those who wait in its queue, unless it is one of them.
func (d *Dispatcher) enter(a Agent, brief bool) *waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiters[a.ID] != nil {
		return nil
	}
	q := d.queues[a.QueueID]
	if q == nil {
		d.forgetIdle()
		q = newQueue(d, a.QueueID)
		d.queues[a.QueueID] = q
	}
	w := &waiter{Agent: a, brief: brief, queue: q, answer: make(chan string, 1), gone: make(chan struct{})}
	d.waiters[a.ID] = w
	d.measures.waiting.Inc()
	q.add(w)
	return w
}

// leave notes that an agent waits no more.
func (d *Dispatcher) leave(w *waiter) {
	d.mu.Lock()
	delete(d.waiters, w.ID)
	w.queue.used = d.clock()
	d.mu.Unlock()
	d.measures.waiting.Dec()
	close(w.gone)
}

// keepQueue is how long a queue is remembered in which nobody waits. Agents come back after seconds.
const keepQueue = 10 * time.Minute

// forgetIdle forgets queues that nobody has used for some time. The caller holds mu.
func (d *Dispatcher) forgetIdle() {
	before := d.clock().Add(-keepQueue)
	for id, q := range d.queues {
		if q.used.Before(before) && q.idle() {
			q.unsubscribe()
			delete(d.queues, id)
		}
	}
}
