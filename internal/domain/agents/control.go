package agents

import (
	"context"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// maxPause is how long an agent can be paused, in minutes.
const maxPause = 7 * 24 * 60

// resumeTask is about a paused agent, whose pause ends then.
const resumeTask = "agent-resume"

type resumePayload struct {
	OrganizationID string `json:"organization_id"`
}

// stop has an agent take no more jobs and go away when it has none. With force, the build of the job
// that it has is canceled, and the job with it. may says whether the agent can be stopped.
//
// The build is canceled first: whoever got no answer asks again, and an agent that is stopping already
// is none that can be stopped.
func (s *Service) stop(ctx context.Context, orgID, agentID string, force bool, may func(*Agent) error) error {
	var canceled string
	if force {
		now, err := s.readSnapshot(ctx, orgID, agentID)
		if err != nil {
			return err
		}
		if err := may(now.Agent); err != nil {
			return err
		}
		if err := s.cancelBuildOf(ctx, orgID, now.job); err != nil {
			return err
		}
		canceled = now.job.JobID
	}
	var meanwhile builds.Holding
	err := s.change(ctx, orgID, agentID, func(q *db.Q, a *Agent) (err error) {
		if err := may(a); err != nil {
			return err
		}
		a.stop(s.clock())
		meanwhile, err = builds.HeldBy(q, orgID, agentID)
		return err
	})
	if err != nil {
		return err
	}
	if force && meanwhile.JobID != canceled {
		return s.cancelBuildOf(ctx, orgID, meanwhile)
	}
	return s.returnOffer(ctx, orgID, meanwhile)
}

// returnOffer lets others have a job that an agent was offered and has not accepted.
func (s *Service) returnOffer(ctx context.Context, orgID string, job builds.Holding) error {
	if job.State != flow.Assigned {
		return nil
	}
	err := s.builds.Return(ctx, orgID, job.JobID, job.AgentID)
	if core.KindOf(err) == core.Unprocessable { // it has moved meanwhile
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

// cancelBuildOf cancels the build of a job, if there is one, and if it is not canceled already.
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

// pause keeps an agent from being given jobs, for some minutes, or as long as the time before when that
// is nil. may says whether it can be paused.
func (s *Service) pause(ctx context.Context, orgID, agentID string, by *identity.User, note string, minutes *int, may func(*Agent) error) error {
	var job builds.Holding
	err := s.change(ctx, orgID, agentID, func(q *db.Q, a *Agent) (err error) {
		if err := may(a); err != nil {
			return err
		}
		a.Pause.At, a.Pause.By, a.Pause.Note = s.clock(), by, note
		if minutes != nil {
			a.Pause.Minutes = *minutes
		}
		if job, err = builds.HeldBy(q, orgID, agentID); err != nil {
			return err
		}
		return tasks.Set(q, tasks.Task{Kind: resumeTask, Key: a.ID, Payload: resumePayload{orgID}, RunAt: a.Pause.EndsAt()})
	})
	if err != nil {
		return err
	}
	return s.returnOffer(ctx, orgID, job)
}

// resume lets an agent be given jobs again. may says whether it can be resumed.
func (s *Service) resume(ctx context.Context, orgID, agentID string, may func(*Agent) error) error {
	return s.change(ctx, orgID, agentID, func(q *db.Q, a *Agent) error {
		if err := may(a); err != nil {
			return err
		}
		a.resume()
		return tasks.Remove(q, resumeTask, a.ID)
	})
}

// stop notes that the agent is to go away.
func (a *Agent) stop(now time.Time) {
	if a.State == Lost { // it learns of it should it come back
		a.StopRequestedAt = now
		return
	}
	a.transition(Stopping, now)
}

func (a *Agent) resume() { a.Pause = Pause{Minutes: a.Pause.Minutes} }

// endPause resumes an agent whose pause has lasted for as long as it was meant to.
func (s *Service) endPause(q *db.Q, t *tasks.Due) error {
	var of resumePayload
	if err := t.Payload(&of); err != nil {
		return err
	}
	a, err := lockByID(q, of.OrganizationID, t.Key)
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

// checkPause notes what is wrong with what is said about a pause.
func checkPause(problems *core.Problems, note string, minutes *int) {
	if n := len([]rune(note)); n > maxNote {
		problems.Add("note", "must have at most %d characters, not %d", maxNote, n)
	}
	if minutes != nil && (*minutes < 1 || *minutes > maxPause) {
		problems.Add("timeout_in_minutes", "must be from 1 to %d", maxPause)
	}
}

// maxNote is the length of the longest note about a pause, in characters.
const maxNote = 2048

// message is a pause in words, for the log of the agent.
func (p Pause) message() string {
	text := "This agent is paused"
	if p.Note != "" {
		text += ": " + p.Note
	}
	return text
}
