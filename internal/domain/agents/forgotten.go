package agents

import (
	"context"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A polling agent does not ping while it has a job. An agent that keeps pinging has forgotten its job: it could
// not report the start or the end of the job and gave up. Only the server can end such a job.

// forgottenAfter is how long an agent must have pinged before its job counts as forgotten. The time allows for
// pings that were sent before the job started and arrive late. An accepted job counts only when the agent is
// not offered it again; otherwise only the start timeout of jobs applies.
var forgottenAfter = map[flow.JobState]time.Duration{
	flow.Accepted:  30 * time.Second,
	flow.Running:   time.Minute,
	flow.Canceling: 30 * time.Second,
	flow.TimingOut: 30 * time.Second,
}

// busyPolling records since when an agent has pinged although it has a job.
type busyPolling struct {
	jobID string
	state flow.JobState
	since time.Time
}

// endForgottenJob is called when an agent pings. It ends the agent's job if the agent has forgotten it.
func (s *Service) endForgottenJob(ctx context.Context, sess *session, now *snapshot) error {
	if !sess.hasForgottenJob(now, s.clock()) {
		return nil
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		return enqueueJobEnd(q, now.Agent, now.job.JobID, "Its agent forgot the job.", s.clock())
	})
}

// hasForgottenJob reports whether the agent, which pings, has forgotten its job.
func (sess *session) hasForgottenJob(now *snapshot, at time.Time) bool {
	limit, applies := forgottenAfter[now.job.State]
	applies = applies && !now.offersJob()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if !applies {
		sess.busyPolling = busyPolling{}
		return false
	}
	if sess.busyPolling.jobID != now.job.JobID || sess.busyPolling.state != now.job.State {
		sess.busyPolling = busyPolling{now.job.JobID, now.job.State, at}
	}
	return at.Sub(sess.busyPolling.since) >= limit
}
