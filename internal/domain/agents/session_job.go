package agents

import (
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A job changes state several times while an agent has it, mostly because the agent's own process says so. A session
// follows the changes that this process makes, without reading them, from the moment at which the job is assigned. Any
// other change makes it read the agent again.

// A jobMove is a change of a job that an agent holds, or held until then.
type jobMove struct {
	builds.Holding
	version int64     // of the build
	endedAt time.Time // when the agent finished the job; zero: it did not
}

// noteMove has the sessions of an agent see a change of its job after the commit: the one of this process at once, those
// of others by a notification.
func (s *Service) noteMove(q *db.Q, b *builds.Build, change flow.JobChange) {
	j := change.Job
	m := jobMove{
		Holding: builds.Holding{JobID: j.ID, BuildID: b.ID, PipelineID: b.PipelineID, AgentID: j.AgentID, State: j.State},
		version: b.Version,
	}
	if j.State.Ended() && change.From != flow.Assigned {
		m.endedAt = j.FinishedAt
	}
	q.AnnounceIfUnknown(topic(m.AgentID))
	q.AfterCommit(func() {
		// A session that is added later reads the agent after the commit.
		if sess := s.sessions.findByAgent(m.AgentID); sess != nil {
			sess.follow(m)
		}
		s.bus.PublishElsewhere(topic(m.AgentID))
	})
}

// follow replaces the snapshot after a committed change of the agent's job. If the snapshot may be outdated besides, or
// the job is not the one that the session follows, the agent is read again.
func (sess *session) follow(m jobMove) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.followed++
	known := sess.latest.job
	switch {
	case known.JobID == m.JobID && sess.following && m.version < sess.jobVersion:
		return // a later change was committed first
	case sess.stale:
	case known.JobID == m.JobID && sess.following, known.JobID == "" && m.State == flow.Assigned:
		sess.jobVersion, sess.following = m.version, true
		sess.replace(sess.latest.after(m))
		return
	}
	sess.stale = true
	sess.replace(sess.latest)
}

// after returns the snapshot after a change of the agent's job.
func (now *snapshot) after(m jobMove) *snapshot {
	next := *now
	next.job = m.Holding
	if m.State.Held() {
		return &next
	}
	next.job = builds.Holding{}
	if !m.endedAt.IsZero() {
		a := *now.Agent
		a.LastJobFinishedAt = m.endedAt
		next.Agent = &a
	}
	return &next
}

// replace sets the snapshot and wakes requests that wait for another one. The caller holds mu.
func (sess *session) replace(now *snapshot) {
	before := sess.latest.job
	if before.JobID != "" && before.JobID != now.job.JobID && before.State != flow.Assigned {
		sess.jobFinished = true
	}
	if now.job.JobID == "" {
		sess.following = false
	}
	close(sess.changed)
	sess.latest, sess.changed = now, make(chan struct{})
}

// holding returns the holding of a job that the session follows, unless the agent may have changed besides.
func (sess *session) holding(jobID string) (h builds.Holding, ok bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.latest.job, sess.following && !sess.stale && len(sess.wakeups) == 0 && sess.latest.job.JobID == jobID
}
