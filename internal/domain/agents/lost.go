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
	// endJobTask is about a job whose agent will not end it.
	endJobTask = "agent-job"
	// lostBatch bounds the agents that are given up in one transaction.
	lostBatch = 100
	// endJobTimeout bounds the ending of one job. When the process dies with it, the job waits for about
	// as long before another process ends it.
	endJobTimeout = 10 * time.Second
)

// agentLost is the reason of jobs whose agents ended without them.
const agentLost = "agent_lost"

// FindLost gives up agents that have said nothing for too long, and their jobs with them. No silence
// counts that this process could not have heard the end of, so that nobody is lost because the server
// was away. It asks nothing of the database before somebody can have been silent for so long.
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

// loseBatch gives up some of the agents that have said nothing since a time, and reports whether there
// may be more.
func (s *Service) loseBatch(q *db.Q, since, now time.Time) (more bool, err error) {
	silent, err := silentSince(q, since, lostBatch)
	if err != nil {
		return false, err
	}
	slices.SortFunc(silent, func(a, b silentAgent) int { return strings.Compare(a.id, b.id) }) // all writers lock agents in this order
	for _, who := range silent {
		if s.sessions.seenSince(who.id, since) {
			err = recordSeen(q, who.id, now)
		} else {
			err = s.lose(q, who, since, now)
		}
		if err != nil {
			return false, err
		}
	}
	return len(silent) == lostBatch, nil
}

// lose gives up an agent, unless another replica has heard of it after a time.
func (s *Service) lose(q *db.Q, who silentAgent, since, now time.Time) error {
	a, err := lockByID(q, who.organizationID, who.id)
	if err != nil {
		return err
	}
	silent, err := deleteSilent(q, a.ID, since)
	if err != nil {
		return err
	}
	if !silent || !a.transition(Lost, now) {
		return nil
	}
	q.Announce(topic(a.ID))
	if err := updateAgent(q, a); err != nil {
		return err
	}
	return s.enqueueJobEnds(q, a, "Its agent was lost.", now)
}

// enqueueJobEnds gives up the jobs that an agent has: one, or none, or several where it took them at the same moment.
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

// endJobPayload says which job an agent will not end, and why.
type endJobPayload struct {
	OrganizationID string `json:"organization_id"`
	AgentID        string `json:"agent_id"`
	Why            string `json:"why"`
}

// enqueueJobEnd has a job ended that its agent will not end. That is a task because builds are locked before
// agents, never after.
func enqueueJobEnd(q *db.Q, a *Agent, jobID, why string, now time.Time) error {
	return tasks.Add(q, tasks.Task{Kind: endJobTask, Key: jobID, Payload: endJobPayload{a.OrganizationID, a.ID, why}, RunAt: now})
}

// endJob ends a job in the place of its agent, or gives it to others if the agent has not taken it
// yet. If it is not that agent's any more, nothing is left to do.
func (s *Service) endJob(ctx context.Context, t *tasks.Due) error {
	var of endJobPayload
	if err := t.Payload(&of); err != nil {
		return err
	}
	var job builds.Holding
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		job, err = builds.HoldingOf(q, of.OrganizationID, t.Key)
		return err
	})
	switch {
	case core.KindOf(err) == core.NotFound:
		return nil
	case err != nil:
		return err
	case job.AgentID != of.AgentID || job.State.Ended():
		return nil
	case job.State == flow.Assigned:
		err = s.builds.Return(ctx, of.OrganizationID, t.Key, of.AgentID)
	default:
		err = s.builds.Finish(ctx, of.OrganizationID, t.Key, of.AgentID, flow.Exit{Status: -1, SignalReason: agentLost}, of.Why)
	}
	if core.KindOf(err) == core.Unprocessable { // it has moved meanwhile
		return nil
	}
	return err
}
