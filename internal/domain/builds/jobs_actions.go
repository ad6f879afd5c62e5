package builds

import (
	"context"
	"strconv"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// reload returns a job as it is now, of the same build.
func (s *Service) reload(r *route.Request, o OnJob, id string) (jobView, error) {
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if o.Job, err = jobByID(q, r.Org.ID, id); err != nil {
			return err
		}
		return s.nameAgents(q, r.Org.ID, o.Job)
	})
	if err != nil {
		return jobView{}, err
	}
	return s.jobView(r, o.Pipeline, o.Build, o.Job), nil
}

// Retry makes a new attempt of a job for a user. It returns the attempt as the retry left it: what
// follows, such as the build of a trigger job or an agent that takes the job, may already have moved it.
func (s *Service) Retry(ctx context.Context, orgID, jobID string, by *identity.User) (*Job, error) {
	buildID, err := s.buildOf(ctx, orgID, jobID)
	if err != nil {
		return nil, err
	}
	var next *Job
	err = s.write(ctx, func(q *db.Q, then *followUps) error {
		u, err := s.open(q, orgID, buildID, then)
		if err != nil {
			return err
		}
		if err := u.checkMutable(); err != nil {
			return err
		}
		id, err := u.retry(jobID, by)
		if err != nil {
			return err
		}
		if err := u.close(); err != nil {
			return err
		}
		next, err = jobByID(q, orgID, id)
		return err
	})
	return next, err
}

// retry makes a new attempt of a job.
func (u *unit) retry(jobID string, by *identity.User) (id string, err error) {
	next, err := u.run.Retry(jobID)
	if err != nil {
		return "", err
	}
	_, err = u.q.Exec(`UPDATE jobs SET retried_by = $2 WHERE id = $1`, jobID, userID(by))
	return next.ID, err
}

func (s *Service) putRetry(r *route.Request, o OnJob) (jobView, error) {
	next, err := s.Retry(r.Context(), r.Org.ID, o.ID, &r.Caller.User)
	if err != nil {
		return jobView{}, err
	}
	return s.jobView(r, o.Pipeline, o.Build, next), nil
}

type jobReprioritize struct {
	Priority jsonText `json:"priority" doc:"Jobs with a higher one go first."`
}

// jsonText is a value as it was written. Bodies of other routes tell of a field that is not an integer with
// status 422; this one has its own answer.
type jsonText string

// UnmarshalJSON keeps the text.
func (t *jsonText) UnmarshalJSON(b []byte) error {
	*t = jsonText(b)
	return nil
}

// JSONSchema describes what the text must be.
func (jsonText) JSONSchema() map[string]any { return map[string]any{"type": "integer"} }

func (b jobReprioritize) number() (int, error) {
	n, err := strconv.ParseInt(string(b.Priority), 10, 32)
	if err != nil {
		return 0, core.Errorf(core.BadRequest, "Priority must be an integer")
	}
	return int(n), nil
}

func (s *Service) putReprioritize(r *route.Request, o OnJob, body jobReprioritize) (jobView, error) {
	priority, err := body.number()
	if err != nil {
		return jobView{}, err
	}
	if err := o.Pipeline.Mutable(); err != nil {
		return jobView{}, err
	}
	if err := s.Reprioritize(r.Context(), r.Org.ID, o.ID, priority); err != nil {
		return jobView{}, err
	}
	return s.reload(r, o, o.ID)
}

// Reprioritize replaces the priority of a command job.
func (s *Service) Reprioritize(ctx context.Context, orgID, jobID string, priority int) error {
	return s.db.Write(ctx, func(q *db.Q) error { return reprioritize(q, orgID, jobID, priority) })
}

func reprioritize(q *db.Q, orgID, jobID string, priority int) error {
	n, err := q.Exec(`UPDATE jobs SET priority = $3 WHERE organization_id = $1 AND id = $2 AND type = $4`, orgID, jobID, priority, flow.Script)
	if err == nil && n == 0 {
		err = core.Errorf(core.Unprocessable, "Only command jobs have a priority")
	}
	if err != nil {
		return err
	}
	return dispatch.Reprioritize(q, jobID, priority)
}

func (s *Service) putCancelJob(r *route.Request, o OnJob) (jobView, error) {
	if err := s.CancelJob(r.Context(), r.Org.ID, o.ID); err != nil {
		return jobView{}, err
	}
	return s.reload(r, o, o.ID)
}

// CancelJob ends a job, at once or, when an agent runs it, as soon as it has stopped.
func (s *Service) CancelJob(ctx context.Context, orgID, jobID string) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error { return u.run.CancelJob(jobID) })
}
