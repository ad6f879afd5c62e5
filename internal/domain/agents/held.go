package agents

import (
	"context"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

const noJob = "No job found"

// lateFor is how long after the end of a job its agent may still send what it has of the job's log, and
// say again how the job ended.
const lateFor = 5 * time.Minute

var (
	errOtherJob   = core.Errorf(core.Forbidden, "This token is for another job")
	errOtherBuild = core.Errorf(core.Forbidden, "This token is for a job of another build")
	errNotTaken   = core.Errorf(core.Forbidden, "The job is offered to this agent, which has not accepted it")
	errNotHeld    = core.Errorf(core.Unauthorized, "The job is not this agent's, or has ended")
)

// loadHolding returns the job that a path names, as far as whoever presents a token may speak for it:
// the token must be that of the job, or of the agent that holds it, and the job must not have ended.
func (s *Service) loadHolding(r *route.Request) (builds.Holding, error) {
	return s.holding(r, func(builds.Holding) bool { return false })
}

// loadLate is loadHolding for what may arrive a little while after the job has ended.
func (s *Service) loadLate(r *route.Request) (builds.Holding, error) {
	return s.holding(r, func(h builds.Holding) bool { return s.clock().Sub(h.FinishedAt) <= lateFor })
}

func (s *Service) holding(r *route.Request, late func(builds.Holding) bool) (h builds.Holding, err error) {
	id, err := r.PathID("job", noJob)
	if err != nil {
		return h, err
	}
	if own := r.Session.JobID; own != "" && own != id {
		return h, errOtherJob
	}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		h, err = builds.HoldingOf(q, r.Org.ID, id)
		return err
	})
	if err != nil {
		return h, err
	}
	switch {
	case h.AgentID != r.Session.AgentID && r.Session.JobID == "":
		return h, core.Errorf(core.Forbidden, "The job is not this agent's")
	case h.AgentID != r.Session.AgentID, h.State.Ended() && !late(h):
		return h, errNotHeld
	case h.State == flow.Assigned: // it may still be given to another
		return h, errNotTaken
	}
	return h, nil
}

// loadHoldingOfBuild returns the job that speaks on a path that names its build: the one whose token was
// presented, or the one that the agent holds.
func (s *Service) loadHoldingOfBuild(r *route.Request) (h builds.Holding, err error) {
	id, err := r.PathID("build", "No build found")
	if err != nil {
		return h, err
	}
	if h, err = s.loadOwnHolding(r); err != nil {
		return h, err
	}
	if h.BuildID != id {
		return h, errOtherBuild
	}
	return h, nil
}

// loadOwnHolding returns the job that speaks where the path names none: the one whose token was
// presented, or the one that the agent holds.
func (s *Service) loadOwnHolding(r *route.Request) (h builds.Holding, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if r.Session.JobID == "" {
			h, err = builds.HeldBy(q, r.Org.ID, r.Session.AgentID)
			return err
		}
		h, err = builds.HoldingOf(q, r.Org.ID, r.Session.JobID)
		return err
	})
	if core.KindOf(err) == core.NotFound || err == nil && (h.AgentID != r.Session.AgentID || h.State.Ended() || h.State == flow.Assigned) {
		err = errNotHeld
	}
	return h, err
}

// held is a job together with its build and its pipeline.
type held struct {
	Job      *builds.Job
	Build    *builds.Build
	Pipeline *pipelines.Pipeline
}

// loadHeld is loadHolding for what needs to know all about the job.
func (s *Service) loadHeld(r *route.Request) (held, error) {
	holding, err := s.loadHolding(r)
	if err != nil {
		return held{}, err
	}
	return s.whole(r.Context(), r.Org.ID, holding.JobID)
}

// whole returns all about a job.
func (s *Service) whole(ctx context.Context, orgID, jobID string) (h held, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		h.Job, h.Build, h.Pipeline, err = builds.Whole(q, orgID, jobID)
		return err
	})
	return h, err
}
