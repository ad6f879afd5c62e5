package agents

import (
	"context"
	"sync"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// presence knows since when the silence of agents counts. While this process is away, or cannot save
// whom it hears, nobody is silent.
type presence struct {
	mu             sync.Mutex
	reliable       time.Time // since when it counts
	lastRun        time.Time // when the loop came by last; zero when there is none
	noneLostBefore time.Time // before that no agent can be lost
}

// mayHaveLost reports whether there may be an agent that has been silent for too long.
func (p *presence) mayHaveLost(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !now.Before(p.noneLostBefore)
}

// setNoneLostBefore notes that no agent is lost before a time, whatever happens.
func (p *presence) setNoneLostBefore(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noneLostBefore = at
}

// reliableSince returns since when silence counts. every is how often the loop comes by.
func (p *presence) reliableSince(now time.Time, every time.Duration) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lastRun.IsZero() && now.Sub(p.lastRun) > 3*every { // the machine was suspended
		return now
	}
	return p.reliable
}

// recordRun notes that the loop comes by, and whether it could save. A clock that was set counts as having been
// away.
func (p *presence) recordRun(now time.Time, every time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || !p.lastRun.IsZero() && now.Sub(p.lastRun) > 3*every || now.Before(p.lastRun) {
		p.reliable = now
	}
	p.lastRun = now
}

// flushEvery is how often it is saved which agents were heard of.
func (s *Service) flushEvery() time.Duration { return min(s.LostAfter/6, 30*time.Second) }

// Run saves which agents were heard of, gives up those that were not for too long, and forgets those that
// are gone, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	every := time.NewTicker(s.flushEvery())
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.flush(context.WithoutCancel(ctx))
		case <-every.C:
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

// flush saves which agents were heard of since it was called last with one statement, however many, and
// asks at the same time whether their organizations may have changed.
func (s *Service) flush(ctx context.Context) error {
	now := s.clock()
	heard, gone := s.sessions.takeSeen(now, s.LostAfter)
	s.sessions.remove(gone)
	if len(heard) == 0 {
		return nil
	}
	ids := make([]string, len(heard))
	for i, e := range heard {
		ids[i] = e.agentID
	}
	var known, epoch int64
	var asked time.Time
	err := s.db.Write(ctx, func(q *db.Q) (err error) {
		if known, err = recordAllSeen(q, ids, now); err != nil {
			return err
		}
		asked = s.clock()
		epoch, err = identity.Epoch(q)
		return err
	})
	if err == nil {
		s.dir.Heed(epoch, asked)
	}
	if err != nil || known < int64(len(ids)) { // some were given up, or deleted with their cluster
		for _, e := range heard {
			e.mu.Lock()
			e.unflushed, e.stale = e.unflushed || err != nil, true
			e.mu.Unlock()
		}
	}
	return err
}

// takeSeen returns the sessions of agents that were heard of since it was called last, and those of
// agents that nobody will hear of again.
func (r *sessionRegistry) takeSeen(now time.Time, lostAfter time.Duration) (heard []*session, gone map[*session]bool) {
	gone = map[*session]bool{}
	for _, e := range r.all() {
		e.mu.Lock()
		switch {
		case e.waiting > 0:
			e.lastSeen = now
			heard = append(heard, e)
		case e.unflushed && !e.latest.HasLeft():
			heard = append(heard, e)
		case e.latest.HasLeft() || now.Sub(e.lastSeen) > lostAfter:
			gone[e] = true
		}
		e.unflushed = false
		e.mu.Unlock()
	}
	return heard, gone
}

// seenSince reports whether an agent was heard of in this process since a time.
func (r *sessionRegistry) seenSince(agentID string, since time.Time) bool {
	e := r.findByAgent(agentID)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiting > 0 || e.lastSeen.After(since)
}
