package agents

import (
	"context"
	"math/rand/v2"
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// An instruction is the response to a ping: a job to accept, an action, or neither.
type instruction struct {
	jobID   string
	action  action
	message string
}

// action is what an agent does next.
type action string

// The actions.
const (
	actionContinue   action = "" // also ends a pause
	actionPause      action = "pause"
	actionDisconnect action = "disconnect"
)

// The bounds of how long a ping waits for a job.
const (
	minPingWait = time.Second
	maxPingWait = 10 * time.Second
)

// DefaultPingWait returns how long a ping waits for a job, given how long the agent has been idle. An agent
// checks only between pings whether it has been idle long enough to leave, and the server does not know that
// limit; so the wait grows with the idle time. It is random, so that agents that started together do not ping
// together.
func DefaultPingWait(idle time.Duration) time.Duration {
	wait := min(max(idle/4, minPingWait), maxPingWait)
	return wait/2 + rand.N(wait/2)
}

// pingTick is the grid on which waits of pings end. Answering and receiving many pings at once takes much less processor
// time than waking up for each.
const pingTick = 50 * time.Millisecond

// onTick shortens a long wait that begins now so that it ends on the grid.
func onTick(now time.Time, wait time.Duration) time.Duration {
	if wait < minPingWait/2 {
		return wait
	}
	return now.Add(wait).Truncate(pingTick).Sub(now)
}

// tryTimeout bounds the search for a job when the ping does not wait.
const tryTimeout = 2 * time.Second

// instruction returns the instruction for the agent. final reports whether waiting cannot improve it: only a
// change of the agent can bring a job.
func (now *snapshot) instruction() (next instruction, final bool) {
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

// offersJob reports whether the agent is offered its job: until it has accepted the job, and then until it has
// started it, because the response to its accept may have been lost. Accepting again does no harm. An agent
// that acquires its job gets no offers.
func (now *snapshot) offersJob() bool {
	return now.job.State == flow.Assigned || now.job.State == flow.Accepted && !now.Ignored
}

// ping returns the instruction for an agent. When there is no job it waits for one, so that a job is offered as
// soon as it is scheduled. It does not wait when the agent has to act, when it gets no jobs by pings, or when
// it has just finished a job and may want to leave.
func (s *Service) ping(ctx context.Context, sess *session) (instruction, error) {
	known, _, err := s.current(ctx, sess)
	if err != nil {
		return instruction{}, err
	}
	limit, finished := s.PingWait(known.idleFor(s.clock())), sess.takeJobFinished()
	if finished {
		limit = min(limit, tryTimeout)
	}
	replaced := sess.beginWait()
	defer sess.endWait()
	timeout := time.NewTimer(onTick(time.Now(), limit))
	defer timeout.Stop()
	for {
		now, changed, err := s.currentOffer(ctx, sess)
		if err != nil {
			return instruction{}, err
		}
		if next, final := now.instruction(); final {
			return next, s.endForgottenJob(ctx, sess, now)
		}
		jobID, end, err := s.awaitJob(ctx, sess, now, finished, dispatch.Interrupts{Changed: changed, Replaced: replaced, Timeout: timeout.C})
		if err != nil || jobID != "" || finished || end == dispatch.Over || core.IsClosed(replaced) || s.isDraining() {
			return instruction{jobID: jobID}, err
		}
	}
}

// currentOffer is current, except that it reads again when the agent is about to be offered a job once more:
// the job may have been returned or started without a notification to this process.
func (s *Service) currentOffer(ctx context.Context, sess *session) (*snapshot, <-chan struct{}, error) {
	now, changed, err := s.current(ctx, sess)
	if err != nil || !now.offersJob() {
		return now, changed, err
	}
	sess.markStale()
	return s.current(ctx, sess)
}

// awaitJob waits until a job is assigned to the agent, the agent changes, or something else ends the wait. It returns
// the job, "" for none. With brief set, it does not wait when there is no job.
func (s *Service) awaitJob(ctx context.Context, sess *session, now *snapshot, brief bool, by dispatch.Interrupts) (jobID string, end dispatch.End, err error) {
	by.Wakeups, by.Draining = sess.wakeups, s.draining
	jobID, end, err = s.dispatch.Hold(ctx, dispatch.Agent{
		ID:             now.ID,
		OrganizationID: now.OrganizationID,
		QueueID:        now.QueueID,
		Tags:           now.Tags,
		TagsKey:        now.tagsKey,
		Priority:       now.Priority,
		IdleSince:      now.idleSince(),
		FairShare:      quotas.Of(&sess.identity.Load().Organization).FairShare,
	}, brief, by)
	if end == dispatch.Woken {
		sess.markStale()
	}
	return jobID, end, err
}

// awaitChange waits until the agent may have changed, another wait replaces this one, the server drains, or ctx is
// done.
func (s *Service) awaitChange(ctx context.Context, sess *session, changed, replaced <-chan struct{}) {
	select {
	case <-sess.wakeups:
		sess.markStale()
	case <-changed:
	case <-replaced:
	case <-s.draining:
	case <-ctx.Done():
	}
}

// idleFor returns how long the agent has had no job on this connection.
func (a *Agent) idleFor(now time.Time) time.Duration {
	since := a.idleSince()
	if a.ConnectedAt.After(since) {
		since = a.ConnectedAt
	}
	return now.Sub(since)
}

// idleSince returns when the agent finished its last job, or connected.
func (a *Agent) idleSince() time.Time {
	if a.LastJobFinishedAt.IsZero() {
		return a.ConnectedAt
	}
	return a.LastJobFinishedAt
}

// beginWait records that a request of the agent waits, until endWait is called. It ends the previous wait: the agent
// has lost or closed that connection. replaced is closed when another wait begins.
func (sess *session) beginWait() (replaced <-chan struct{}) {
	mine := make(chan struct{})
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.replaced != nil {
		close(sess.replaced)
	}
	sess.replaced = mine
	sess.waiting++
	return mine
}

// endWait records that a wait has ended.
func (sess *session) endWait() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.waiting--
}

// takeJobFinished reports whether a job of the agent has ended since the last call.
func (sess *session) takeJobFinished() bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	finished := sess.jobFinished
	sess.jobFinished = false
	return finished
}
