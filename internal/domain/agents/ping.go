package agents

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/rules/flow"
)

// An answer is what an agent that asks for work is told: a job to accept, something to do, or nothing.
type instruction struct {
	jobID   string
	action  action
	message string
}

// action is what an agent is to do.
type action string

// The actions.
const (
	actionContinue   action = "" // also when it was paused before
	actionPause      action = "pause"
	actionDisconnect action = "disconnect"
)

// The bounds of how long a ping is held.
const (
	minPingWait = time.Second
	maxPingWait = 10 * time.Second
)

// PingWait returns how long a ping is held for an agent that has been idle for some time. Agents look only
// between pings whether they have been idle for long enough to leave, and the server does not know how long
// that is; so the hold grows with the idle time. It is random, so that agents that started together do not
// ping together.
func DefaultPingWait(idle time.Duration) time.Duration {
	hold := min(max(idle/4, minPingWait), maxPingWait)
	return hold/2 + rand.N(hold/2)
}

// tryTimeout is how long it may take at most to find a job for an agent that is not kept waiting.
const tryTimeout = 2 * time.Second

// instruction returns what the agent is told as it stands, and whether that is all there is to say: nothing
// but a change would bring it a job.
func (now *snapshot) instruction() (told instruction, settled bool) {
	switch {
	case now.State == Stopping:
		return instruction{action: actionDisconnect, message: "This agent was asked to stop"}, true
	case now.QueueID == "":
		return instruction{action: actionDisconnect, message: "The queue of this agent was deleted"}, true
	case !now.Pause.At.IsZero():
		return instruction{action: actionPause, message: now.Pause.message()}, true
	case now.offersJob():
		return instruction{jobID: now.job.JobID}, true
	}
	return instruction{}, now.job.JobID != "" || now.Ignored
}

// offersJob reports whether the agent is offered the job that it holds: until it has accepted the job, and
// after that until it has started it, because the answer to its accept may have been lost. Accepting again
// does no harm. An agent that acquires its job takes no offers.
func (now *snapshot) offersJob() bool {
	return now.job.State == flow.Assigned || now.job.State == flow.Accepted && !now.Ignored
}

// ping answers an agent that asks for work. When there is none the answer is held back for a while, so
// that a job is taken the moment it can be. It is not held back when the agent had better know at once:
// when it is to do something else, takes no jobs this way, or has just ended one and may want to leave.
func (s *Service) ping(ctx context.Context, e *session) (instruction, error) {
	known, _, err := s.current(ctx, e)
	if err != nil {
		return instruction{}, err
	}
	wait, patience := s.dispatch.Wait, s.PingWait(known.idleFor(s.clock()))
	finished := e.takeJobFinished()
	if finished {
		wait, patience = s.dispatch.Try, min(patience, tryTimeout)
	}
	waiting, done := e.beginWait(ctx)
	defer done()
	waiting, cancel := context.WithTimeout(waiting, patience)
	defer cancel()
	for {
		now, changed, err := s.currentOffer(ctx, e)
		if err != nil {
			return instruction{}, err
		}
		if told, settled := now.instruction(); settled {
			return told, s.endForgottenJob(ctx, e, now)
		}
		jobID, err := s.awaitJob(waiting, e, now, changed, wait)
		if err != nil || jobID != "" || finished || waiting.Err() != nil || s.isDraining() {
			return instruction{jobID: jobID}, err
		}
	}
}

// currentOffer is current for an agent that is about to be offered a job again, which may have been given back or
// started meanwhile without this process being notified.
func (s *Service) currentOffer(ctx context.Context, e *session) (*snapshot, <-chan struct{}, error) {
	now, changed, err := s.current(ctx, e)
	if err != nil || !now.offersJob() {
		return now, changed, err
	}
	e.markStale()
	return s.current(ctx, e)
}

// awaitJob waits until a job was assigned to an agent, the agent stands otherwise, or ctx is done, and
// returns the job, "" for none.
func (s *Service) awaitJob(ctx context.Context, e *session, now *snapshot, changed <-chan struct{}, wait waitFunc) (jobID string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer cancel()
		s.awaitChange(ctx, e, changed)
	})
	defer watch.Wait() // if it was woken, that is noted
	defer cancel()
	return wait(ctx, dispatch.Agent{
		ID:             now.ID,
		OrganizationID: now.OrganizationID,
		QueueID:        now.QueueID,
		Tags:           now.Tags,
		Priority:       now.Priority,
		IdleSince:      now.idleSince(),
		FairShare:      e.identity.Load().Organization.Limits.FairShare,
	})
}

// waitFunc is how an agent waits for a job: see dispatch.
type waitFunc func(context.Context, dispatch.Agent) (jobID string, err error)

// awaitChange waits until an agent may stand otherwise, the server is about to stop, or ctx is done.
func (s *Service) awaitChange(ctx context.Context, e *session, changed <-chan struct{}) {
	select {
	case <-e.wakeups:
		e.markStale()
	case <-changed:
	case <-s.draining:
	case <-ctx.Done():
	}
}

// idleFor is how long the agent has had nothing to do on this connection.
func (a *Agent) idleFor(now time.Time) time.Duration {
	since := a.idleSince()
	if a.ConnectedAt.After(since) {
		since = a.ConnectedAt
	}
	return now.Sub(since)
}

// idleSince is when the agent ended its last job, or came.
func (a *Agent) idleSince() time.Time {
	if a.LastJobFinishedAt.IsZero() {
		return a.ConnectedAt
	}
	return a.LastJobFinishedAt
}

// beginWait notes that the agent waits for an answer, which it is there for until done is called. Where it
// waited before, it does not any more: it has lost that connection, or given it up.
func (e *session) beginWait(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancelWait != nil {
		e.cancelWait()
	}
	e.cancelWait = cancel
	e.waiting++
	return ctx, func() {
		cancel()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.waiting--
	}
}

// takeJobFinished reports, once, that a job of the agent has ended since it last asked.
func (e *session) takeJobFinished() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	finished := e.jobFinished
	e.jobFinished = false
	return finished
}
