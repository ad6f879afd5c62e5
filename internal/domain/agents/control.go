package agents

import (
	"context"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// maxPause is the longest pause, in minutes.
const maxPause = 7 * 24 * 60

// resumeTask resumes a paused agent.
const resumeTask = "agent-resume"

type resumePayload struct {
	OrganizationID string `json:"organization_id"`
}

// stop makes an agent disconnect once it has no job. With force it cancels the build of the agent's job. check
// decides whether the agent can be stopped.
//
// The build is canceled first, so that the request can be repeated after a lost response: a stopping agent
// cannot be stopped again.
func (s *Service) stop(ctx context.Context, orgID, agentID string, force bool, check func(*Agent) error) error {
	var canceled string
	if force {
		now, err := s.readSnapshot(ctx, orgID, agentID)
		if err != nil {
			return err
		}
		if err := check(now.Agent); err != nil {
			return err
		}
		if err := s.cancelBuildOf(ctx, orgID, now.job); err != nil {
			return err
		}
		canceled = now.job.JobID
	}
	var meanwhile builds.Holding
	err := s.change(ctx, orgID, agentID, func(q *db.Q, a *Agent) (err error) {
		if err := check(a); err != nil {
			return err
		}
		a.stop(s.clock())
		if meanwhile, err = builds.HeldBy(q, orgID, agentID); err != nil {
			return err
		}
		return record(q, a, "agent.stopped", audit.Fields{{Name: "force", Value: force}})
	})
	if err != nil {
		return err
	}
	if force && meanwhile.JobID != canceled {
		return s.cancelBuildOf(ctx, orgID, meanwhile)
	}
	return s.returnOffer(ctx, orgID, meanwhile)
}

// returnOffer makes a job that an agent was offered and has not accepted available to other agents.
func (s *Service) returnOffer(ctx context.Context, orgID string, job builds.Holding) error {
	if job.State != flow.Assigned {
		return nil
	}
	err := s.builds.Return(ctx, orgID, job.JobID, job.AgentID)
	if core.KindOf(err) == core.Unprocessable { // its state has changed meanwhile
		return nil
	}
	return err
}

func (s *Service) readSnapshot(ctx context.Context, orgID, agentID string) (now *snapshot, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		now, err = readSnapshot(q, orgID, agentID)
		return err
	})
	return now, err
}

// cancelBuildOf cancels the build of a job, if there is a job and its build can be canceled.
func (s *Service) cancelBuildOf(ctx context.Context, orgID string, job builds.Holding) error {
	if job.JobID == "" {
		return nil
	}
	err := s.builds.Cancel(ctx, orgID, job.BuildID, "Its agent was stopped")
	if core.KindOf(err) == core.Unprocessable {
		return nil
	}
	return err
}

// pause keeps an agent from getting jobs for some minutes; nil is the length of its previous pause. check
// decides whether the agent can be paused.
func (s *Service) pause(ctx context.Context, orgID, agentID string, by *identity.User, note string, minutes *int, check func(*Agent) error) error {
	var job builds.Holding
	err := s.change(ctx, orgID, agentID, func(q *db.Q, a *Agent) (err error) {
		if err := check(a); err != nil {
			return err
		}
		a.Pause.At, a.Pause.By, a.Pause.Note = s.clock(), by, note
		if minutes != nil {
			a.Pause.Minutes = *minutes
		}
		if job, err = builds.HeldBy(q, orgID, agentID); err != nil {
			return err
		}
		if err := record(q, a, "agent.paused", audit.Fields{{Name: "note", Value: note}, {Name: "minutes", Value: a.Pause.Minutes}}); err != nil {
			return err
		}
		return tasks.Set(q, tasks.Task{Kind: resumeTask, Key: a.ID, Payload: resumePayload{orgID}, RunAt: a.Pause.EndsAt()})
	})
	if err != nil {
		return err
	}
	return s.returnOffer(ctx, orgID, job)
}

// resume ends the pause of an agent. check decides whether the agent can be resumed.
func (s *Service) resume(ctx context.Context, orgID, agentID string, check func(*Agent) error) error {
	return s.change(ctx, orgID, agentID, func(q *db.Q, a *Agent) error {
		if err := check(a); err != nil {
			return err
		}
		a.resume()
		if err := record(q, a, "agent.resumed", nil); err != nil {
			return err
		}
		return tasks.Remove(q, resumeTask, a.ID)
	})
}

// stop moves the agent to the state stopping.
func (a *Agent) stop(now time.Time) {
	if a.State == Lost { // it stops when it connects again
		a.StopRequestedAt = now
		return
	}
	a.transition(Stopping, now)
}

func (a *Agent) resume() { a.Pause = Pause{Minutes: a.Pause.Minutes} }

// endPause resumes an agent whose pause is over.
func (s *Service) endPause(q *db.Q, t *tasks.Due) error {
	var payload resumePayload
	if err := t.Payload(&payload); err != nil {
		return err
	}
	a, err := lockByID(q, payload.OrganizationID, t.Key)
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil || a.Pause.At.IsZero() || a.Pause.EndsAt().After(s.clock()) {
		return err
	}
	a.resume()
	q.Announce(topic(a.ID))
	return updateAgent(q, a)
}

// checkPause adds the problems of a pause.
func checkPause(problems *core.Problems, note string, minutes *int) {
	if n := len([]rune(note)); n > maxNote {
		problems.Add("note", "must have at most %d characters, not %d", maxNote, n)
	}
	if minutes != nil && (*minutes < 1 || *minutes > maxPause) {
		problems.Add("timeout_in_minutes", "must be from 1 to %d", maxPause)
	}
}

// maxNote is the maximum length of the note of a pause, in characters.
const maxNote = 2048

// message describes the pause in the agent's own log.
func (p Pause) message() string {
	text := "This agent is paused"
	if p.Note != "" {
		text += ": " + p.Note
	}
	return text
}
