// Package dispatch hands jobs to agents.
//
// Jobs that can be handed out are in a narrow table, runnable: one row per scheduled command job, written in
// the transaction that schedules the job and deleted in the one that changes its state (runnable.go). Finding
// the best job reads nothing else, so its cost does not depend on history.
//
// A job requires a queue and a set of agent rules (rules.go). Sets are identified by a hash of the rules and
// lead the index: the best job for an agent is the first row of one of the sets that the agent satisfies. Rows
// that no waiting agent can take are never read (scan.go).
//
// Waiting agents cost nothing (queue.go). For each queue, a process remembers which rule sets had rows at its
// last scan; the bus notifies it when that may have changed. One scan then matches the best jobs with the best
// waiting agents (match.go), and each job wakes one agent. Jobs are claimed in batches per build (claims.go). A
// job that another process claimed first is skipped, and its agent keeps waiting. Organizations can share
// agents fairly between pipelines (share.go).
//
// Notifications can get lost between processes, so processes that share a database also poll, with one
// statement for all their queues (poll.go).
package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// An Agent waits for a job.
type Agent struct {
	ID             string
	OrganizationID string
	QueueID        string
	Tags           []string  // key=value; a queue tag is ignored
	TagsKey        string    // of Tags, see [TagsKey]; empty: unknown
	Priority       *int      // highest first; nil: last
	IdleSince      time.Time // within a priority, the agent idle longest gets the job
	FairShare      quotas.FairShare
}

// Jobs are the functions of the packages above that own jobs and pipelines.
type Jobs struct {
	// Assign assigns scheduled jobs of a build to agents in one transaction and returns the ids of those that
	// were assigned. Jobs that have changed state meanwhile are left out.
	Assign func(ctx context.Context, orgID, buildID string, offers []flow.Offer) (assigned []string, err error)
	// AssignedTo returns the job that is assigned to an agent and not accepted yet, or "".
	AssignedTo func(ctx context.Context, orgID, agentID string) (jobID string, err error)
	// Running returns the numbers of jobs of a queue that agents hold, by pipeline.
	Running func(q *db.Q, queueID string) (map[string]int, error)
	// Slugs returns the slugs of pipelines, by id.
	Slugs func(q *db.Q, pipelineIDs []string) (map[string]string, error)
}

// Dispatcher hands out jobs to the agents that wait in this process. It is safe for concurrent use.
type Dispatcher struct {
	db      *db.DB
	bus     *bus.Bus
	clock   core.Clock
	log     *slog.Logger
	jobs    Jobs
	metrics metrics
	rules   RuleSetCache
	claims  *claims
	offered offered

	mu      sync.Mutex
	queues  map[string]*queue
	waiters map[string]*waiter // by agent
}

// New returns a dispatcher.
func New(d *db.DB, b *bus.Bus, clock core.Clock, log *slog.Logger, metrics prometheus.Registerer, jobs Jobs) *Dispatcher {
	dispatcher := &Dispatcher{
		db:      d,
		bus:     b,
		clock:   clock,
		log:     log,
		jobs:    jobs,
		metrics: newMetrics(metrics),
		rules:   NewRuleSetCache(),
		offered: offered{byAgent: map[string]time.Time{}},
		queues:  map[string]*queue{},
		waiters: map[string]*waiter{},
	}
	dispatcher.claims = newClaims(dispatcher)
	return dispatcher
}

// Wait returns a job that was assigned to the agent, or "" when ctx ends first. If an agent waits twice, the
// latest call gets the job. A job that was just assigned to the agent, and that it may not know about, is
// returned again immediately.
func (d *Dispatcher) Wait(ctx context.Context, a Agent) (jobID string, err error) {
	return d.wait(ctx, a, false)
}

// Try is like Wait, but returns "" as soon as there is no job for the agent.
func (d *Dispatcher) Try(ctx context.Context, a Agent) (jobID string, err error) {
	return d.wait(ctx, a, true)
}

func (d *Dispatcher) wait(ctx context.Context, a Agent, brief bool) (jobID string, err error) {
	jobID, _, err = d.Hold(ctx, a, brief, Interrupts{})
	return jobID, err
}

// supersede ends an earlier wait of the agent in this process.
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

// enter adds an agent to the waiters of its queue, unless it already waits.
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
	d.metrics.waiting.Inc()
	q.add(w)
	return w
}

// leave removes an agent from the waiters.
func (d *Dispatcher) leave(w *waiter) {
	d.mu.Lock()
	delete(d.waiters, w.ID)
	w.queue.used = d.clock()
	d.mu.Unlock()
	d.metrics.waiting.Dec()
	close(w.gone)
}

// keepQueue is how long a queue without waiters is kept in memory. Agents usually return within seconds.
const keepQueue = 10 * time.Minute

// forgetIdle drops queues that were not used for keepQueue. The caller holds mu.
func (d *Dispatcher) forgetIdle() {
	before := d.clock().Add(-keepQueue)
	for id, q := range d.queues {
		if q.used.Before(before) && q.idle() {
			q.unsubscribe()
			delete(d.queues, id)
		}
	}
}
