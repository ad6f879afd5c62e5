package agents

import (
	"context"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// Agents that poll ask for no job while they have one. One that keeps asking has forgotten the job: it
// could not tell that it began, or how the job ended, for so long that it gave up. Nobody but the server
// ends such a job.

// forgottenAfter is how long an agent must have been asking before its job counts as forgotten. What
// it asked before the job began may arrive late. A job that is accepted but not started counts only when
// the agent is not offered it again; otherwise the time that a job may take to start is the only limit.
var forgottenAfter = map[flow.JobState]time.Duration{
	flow.Accepted:  30 * time.Second,
	flow.Running:   time.Minute,
	flow.Canceling: 30 * time.Second,
	flow.TimingOut: 30 * time.Second,
}

// busyPolling is since when an agent has been asking for a job although it has one.
type busyPolling struct {
	jobID string
	state flow.JobState
	since time.Time
}

// endForgottenJob notes that an agent asks for a job, and gives up the one that it has if it has been asking for
// long.
func (s *Service) endForgottenJob(ctx context.Context, e *session, now *snapshot) error {
	if !e.hasForgottenJob(now, s.clock()) {
		return nil
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		return enqueueJobEnd(q, now.Agent, now.job.JobID, "Its agent forgot the job.", s.clock())
	})
}

// hasForgottenJob reports whether the agent, which asks for a job, has forgotten the one that it has.
func (e *session) hasForgottenJob(now *snapshot, at time.Time) bool {
	patience, has := forgottenAfter[now.job.State]
	has = has && !now.offersJob()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !has {
		e.busyPolling = busyPolling{}
		return false
	}
	if e.busyPolling.jobID != now.job.JobID || e.busyPolling.state != now.job.State {
		e.busyPolling = busyPolling{now.job.JobID, now.job.State, at}
	}
	return at.Sub(e.busyPolling.since) >= patience
}
