package agents

import (
	"context"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

const (
	// endJobTask ends a job that its agent will not end.
	endJobTask = "agent-job"
	// lostBatch bounds the agents that one transaction marks as lost.
	lostBatch = 100
	// endJobTimeout bounds one attempt to end a job. When the process dies meanwhile, another process tries
	// again after about that time.
	endJobTimeout = 10 * time.Second
)

// agentLost is the signal reason of jobs that their agents did not end.
const agentLost = "agent_lost"

// FindLost marks agents as lost that have sent nothing for LostAfter, and ends their jobs. Only silence that
// this process observed counts, so that no agent is lost because the server was down. It runs no statement
// before an agent can have been silent for that long.
func (s *Service) FindLost(ctx context.Context) error {
	now := s.clock()
	since := now.Add(-s.LostAfter)
	if !s.presence.mayHaveLost(now) || s.presence.reliableSince(now, s.flushEvery()).After(since) {
		return nil
	}
	var earliest time.Time
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		earliest, err = earliestSeen(q, now)
		return err
	})
	if err != nil {
		return err
	}
	more := earliest.Before(since)
	if !more {
		s.presence.setNoneLostBefore(earliest.Add(s.LostAfter))
	}
	for more {
		err := s.db.Write(ctx, func(q *db.Q) (err error) {
			more, err = s.loseBatch(q, since, now)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// loseBatch marks some of the agents as lost that have sent nothing since a time. It reports whether there may
// be more.
func (s *Service) loseBatch(q *db.Q, since, now time.Time) (more bool, err error) {
	silent, err := silentSince(q, since, lostBatch)
	if err != nil {
		return false, err
	}
	slices.SortFunc(silent, func(a, b silentAgent) int { return strings.Compare(a.id, b.id) }) // all writers lock agents in this order
	for _, agent := range silent {
		if s.sessions.seenSince(agent.id, since) {
			err = recordSeen(q, agent.id, now)
		} else {
			err = s.lose(q, agent, since, now)
		}
		if err != nil {
			return false, err
		}
	}
	return len(silent) == lostBatch, nil
}

// lose marks an agent as lost, unless another replica has received a request from it since a time.
func (s *Service) lose(q *db.Q, agent silentAgent, since, now time.Time) error {
	a, err := lockByID(q, agent.organizationID, agent.id)
	if err != nil {
		return err
	}
	silent, err := deleteSilent(q, a.ID, since)
	if err != nil {
		return err
	}
	if !silent {
		return nil
	}
	return s.markLost(q, a, "Its agent was lost.", now)
}

// markLost marks an agent as lost and ends its jobs. The caller has locked the agent and removed its presence.
func (s *Service) markLost(q *db.Q, a *Agent, why string, now time.Time) error {
	before := a.State
	if !a.transition(Lost, now) {
		return nil
	}
	q.Announce(topic(a.ID))
	if err := updateAgent(q, a); err != nil {
		return err
	}
	if err := s.enqueueJobEnds(q, a, why, now); err != nil {
		return err
	}
	return s.recordState(q, before, a)
}

// enqueueJobEnds ends the jobs of an agent. It has more than one only if it took them at the same moment.
func (s *Service) enqueueJobEnds(q *db.Q, a *Agent, why string, now time.Time) error {
	jobs, err := builds.AllHeldBy(q, a.OrganizationID, a.ID)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if err := enqueueJobEnd(q, a, job.JobID, why, now); err != nil {
			return err
		}
	}
	return nil
}

// endJobPayload names the agent that will not end a job, and why.
type endJobPayload struct {
	OrganizationID string `json:"organization_id"`
	AgentID        string `json:"agent_id"`
	Why            string `json:"why"`
}

// enqueueJobEnd ends a job that its agent will not end. It enqueues a task, because builds are locked before
// agents, never after.
func enqueueJobEnd(q *db.Q, a *Agent, jobID, why string, now time.Time) error {
	return tasks.Add(q, tasks.Task{Kind: endJobTask, Key: jobID, Payload: endJobPayload{a.OrganizationID, a.ID, why}, RunAt: now})
}

// endJob ends a job for its agent, or returns the job if the agent has not accepted it. It does nothing if the
// agent no longer has the job.
func (s *Service) endJob(ctx context.Context, t *tasks.Due) error {
	var payload endJobPayload
	if err := t.Payload(&payload); err != nil {
		return err
	}
	var job builds.Holding
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		job, err = builds.HoldingOf(q, payload.OrganizationID, t.Key)
		return err
	})
	switch {
	case core.KindOf(err) == core.NotFound:
		return nil
	case err != nil:
		return err
	case job.AgentID != payload.AgentID || job.State.Ended():
		return nil
	case job.State == flow.Assigned:
		err = s.builds.Return(ctx, payload.OrganizationID, t.Key, payload.AgentID)
	default:
		err = s.builds.Finish(ctx, payload.OrganizationID, t.Key, payload.AgentID, flow.Exit{Status: -1, SignalReason: agentLost}, payload.Why)
	}
	if core.KindOf(err) == core.Unprocessable { // its state has changed meanwhile
		return nil
	}
	return err
}
