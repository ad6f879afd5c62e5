package agents

import (
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

const noJob = "No job found"

// lateWindow is how long after the end of a job its agent can still send log chunks and report again how the
// job ended.
const lateWindow = 5 * time.Minute

// ErrOtherBuild refuses a job token on a path of another build than the job's own.
var ErrOtherBuild = core.Errorf(core.Forbidden, "This token is for a job of another build")

var (
	errOtherJob    = core.Errorf(core.Forbidden, "This token is for another job")
	errNotAccepted = core.Errorf(core.Forbidden, "The job is offered to this agent, which has not accepted it")
	errNotAssigned = core.Errorf(core.Unauthorized, "The job belongs to another agent, or has ended")
)

// LoadJob returns the job that the path names. The request must carry the token of that job or of the
// agent that has accepted it, and the job must not have ended.
func (s *Service) LoadJob(r *route.Request) (builds.Holding, error) {
	return s.loadJob(r, never)
}

// LoadRecentJob is LoadJob for requests that are also accepted for lateWindow after the job has ended.
func (s *Service) LoadRecentJob(r *route.Request) (builds.Holding, error) {
	return s.loadJob(r, s.isRecent)
}

// loadJob checks the request against the job that its path names. acceptEnded decides about jobs that have ended.
func (s *Service) loadJob(r *route.Request, acceptEnded func(builds.Holding) bool) (h builds.Holding, err error) {
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
	return h, checkHolding(r, h, acceptEnded)
}

// checkHolding returns an error unless the caller has accepted a job.
func checkHolding(r *route.Request, h builds.Holding, acceptEnded func(builds.Holding) bool) error {
	switch {
	case h.AgentID != r.Session.AgentID && r.Session.JobID == "":
		return core.Errorf(core.Forbidden, "The job belongs to another agent")
	case h.AgentID != r.Session.AgentID, h.State.Ended() && !acceptEnded(h):
		return errNotAssigned
	case h.State == flow.Assigned: // it can still be assigned to another agent
		return errNotAccepted
	}
	return nil
}

// LoadLogJob is LoadRecentJob for requests that add to the log of the job. It reads nothing as long as this process
// remembers who holds the job. A job that was accepted keeps its agent; that another process has ended it is noticed long
// before lateWindow is over, if the session follows the job, but not by what is in memory besides.
func (s *Service) LoadLogJob(r *route.Request) (builds.Holding, error) {
	return s.recall(r, !s.db.Shared(), s.LoadRecentJob)
}

// loadStarting and loadEnding are LoadJob and LoadRecentJob for reports that change the state of the job: as long as the
// process remembers that the caller holds it, they read nothing. When the report is then refused, the caller is checked
// by the rows.
func (s *Service) loadStarting(r *route.Request) (builds.Holding, error) {
	return s.recallJob(r, s.LoadJob)
}

func (s *Service) loadEnding(r *route.Request) (builds.Holding, error) {
	return s.recallJob(r, s.LoadRecentJob)
}

func (s *Service) recallJob(r *route.Request, load func(*route.Request) (builds.Holding, error)) (builds.Holding, error) {
	return s.recall(r, true, load)
}

// recall returns the job that the path names if the process remembers that the caller holds it: by the session, or by the
// builds in memory if these can be used. Otherwise it calls load.
func (s *Service) recall(r *route.Request, useBuilds bool, load func(*route.Request) (builds.Holding, error)) (builds.Holding, error) {
	id, err := r.PathID("job", noJob)
	if err != nil {
		return builds.Holding{}, err
	}
	if own := r.Session.JobID; own == "" || own == id {
		h, ok := s.followedJob(r.Session.AgentID, id)
		if !ok && useBuilds {
			h, ok = s.builds.Recall(r.Org.ID, id)
		}
		if ok && h.AgentID == r.Session.AgentID && (h.State == flow.Accepted || h.State == flow.Running) {
			return h, nil
		}
	}
	return load(r)
}

// followedJob returns the holding of the job of an agent, if its session in this process follows the job.
func (s *Service) followedJob(agentID, jobID string) (h builds.Holding, ok bool) {
	if sess := s.sessions.findByAgent(agentID); sess != nil {
		return sess.holding(jobID)
	}
	return h, false
}

func never(builds.Holding) bool { return false }

// isRecent reports whether a job ended less than lateWindow ago.
func (s *Service) isRecent(h builds.Holding) bool { return s.clock().Sub(h.FinishedAt) <= lateWindow }

// LoadJobOfBuild returns the caller's job, as LoadOwnJob does, on a path that names the job's build.
func (s *Service) LoadJobOfBuild(r *route.Request) (h builds.Holding, err error) {
	id, err := r.PathID("build", "No build found")
	if err != nil {
		return h, err
	}
	if h, err = s.LoadOwnJob(r); err != nil {
		return h, err
	}
	if h.BuildID != id {
		return h, ErrOtherBuild
	}
	return h, nil
}

// LoadOwnJob returns the caller's job on a path that names none: the job of the job token, or the job that
// the agent of the session token has accepted.
func (s *Service) LoadOwnJob(r *route.Request) (h builds.Holding, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if r.Session.JobID == "" {
			h, err = builds.HeldBy(q, r.Org.ID, r.Session.AgentID)
			return err
		}
		h, err = builds.HoldingOf(q, r.Org.ID, r.Session.JobID)
		return err
	})
	if core.KindOf(err) == core.NotFound || err == nil && (h.AgentID != r.Session.AgentID || h.State.Ended() || h.State == flow.Assigned) {
		err = errNotAssigned
	}
	return h, err
}

// A FullJob is a job with its build and its pipeline.
type FullJob struct {
	Job      *builds.Job
	Build    *builds.Build
	Pipeline *pipelines.Pipeline
}

// LoadFullJob is LoadJob for handlers that also need the job's build and pipeline.
func (s *Service) LoadFullJob(r *route.Request) (full FullJob, err error) {
	h, err := s.LoadJob(r)
	if err != nil {
		return full, err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		full.Job, full.Build, full.Pipeline, err = builds.Whole(q, r.Org.ID, h.JobID)
		return err
	})
	return full, err
}
