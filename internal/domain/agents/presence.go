package agents

import (
	"context"
	"sync"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// presence tracks since when this process observes agents without a gap. It does not while it is down or
// cannot write to the database.
type presence struct {
	mu             sync.Mutex
	reliable       time.Time // since when silence counts
	lastRun        time.Time // of the loop in Run; zero: it has not run
	noneLostBefore time.Time // no agent can be lost before
}

// mayHaveLost reports whether an agent may have been silent for too long.
func (p *presence) mayHaveLost(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !now.Before(p.noneLostBefore)
}

// setNoneLostBefore records that no agent can be lost before a time.
func (p *presence) setNoneLostBefore(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noneLostBefore = at
}

// reliableSince returns the time from which silence counts. interval is the interval of the loop.
func (p *presence) reliableSince(now time.Time, interval time.Duration) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspended(now, interval) {
		return now
	}
	return p.reliable
}

// recordRun records a run of the loop and whether its flush succeeded. A clock that was set counts as an
// outage.
func (p *presence) recordRun(now time.Time, interval time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.suspended(now, interval) || now.Before(p.lastRun) {
		p.reliable = now
	}
	p.lastRun = now
}

// suspended reports whether the loop missed runs, as when the machine was suspended. The caller holds mu.
func (p *presence) suspended(now time.Time, interval time.Duration) bool {
	return !p.lastRun.IsZero() && now.Sub(p.lastRun) > 3*interval
}

// flushEvery returns how often presence is flushed.
func (s *Service) flushEvery() time.Duration { return min(s.LostAfter/6, 30*time.Second) }

// Run flushes the presence of agents, finds lost agents and removes old sessions, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.flushEvery())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.flush(context.WithoutCancel(ctx))
		case <-ticker.C:
		}
		err := s.flush(ctx)
		s.presence.recordRun(s.clock(), s.flushEvery(), err)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("flush agent presence failed", "error", err)
		}
		if err := s.FindLost(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("find lost agents failed", "error", err)
		}
		s.refreshOrganizations(ctx)
	}
}

// flush writes the presence of all agents seen since the last call with one statement. In the same transaction
// it reads the identity epoch, so that changes of organizations are noticed.
func (s *Service) flush(ctx context.Context) error {
	now := s.clock()
	seen, removed := s.sessions.takeSeen(now, s.LostAfter)
	s.sessions.remove(removed)
	if len(seen) == 0 {
		return nil
	}
	ids := make([]string, len(seen))
	for i, sess := range seen {
		ids[i] = sess.agentID
	}
	var known, epoch int64
	var readAt time.Time
	err := s.db.Write(ctx, func(q *db.Q) (err error) {
		if known, err = recordAllSeen(q, ids, now); err != nil {
			return err
		}
		readAt = s.clock()
		epoch, err = identity.Epoch(q)
		return err
	})
	if err == nil {
		s.dir.ObserveEpoch(epoch, readAt)
	}
	if err != nil || known < int64(len(ids)) { // some were marked as lost, or deleted with their cluster
		for _, sess := range seen {
			sess.mu.Lock()
			sess.unflushed, sess.stale = sess.unflushed || err != nil, true
			sess.mu.Unlock()
		}
	}
	return err
}

// takeSeen returns the sessions of agents seen since the last call, and the sessions that can be removed.
func (r *sessionRegistry) takeSeen(now time.Time, lostAfter time.Duration) (seen []*session, removed map[*session]bool) {
	removed = map[*session]bool{}
	for _, sess := range r.all() {
		sess.mu.Lock()
		switch {
		case sess.waiting > 0:
			sess.lastSeen = now
			seen = append(seen, sess)
		case sess.unflushed && !sess.latest.HasLeft():
			seen = append(seen, sess)
		case sess.latest.HasLeft() || now.Sub(sess.lastSeen) > lostAfter:
			removed[sess] = true
		}
		sess.unflushed = false
		sess.mu.Unlock()
	}
	return seen, removed
}

// seenSince reports whether this process has seen an agent since a time.
func (r *sessionRegistry) seenSince(agentID string, since time.Time) bool {
	sess := r.findByAgent(agentID)
	if sess == nil {
		return false
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.waiting > 0 || sess.lastSeen.After(since)
}
