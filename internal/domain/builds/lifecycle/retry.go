package lifecycle

import (
	"context"
	"maps"
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// Retry creates a new attempt of a job for a user and returns it. Effects of the retry, like an agent that
// accepts the job, may have changed it since.
func (s *Service) Retry(ctx context.Context, orgID, jobID string, by *identity.User) (*builds.Job, error) {
	return s.retry(ctx, orgID, jobID, by, func(*db.Q, string) error { return nil })
}

// DebugMinutes is how long the environment of a job is kept for debugging after it failed.
const DebugMinutes = 30

// RetryForDebugging is [Service.Retry] for a job whose environment is kept for a while if it fails. That time is added
// to its timeout.
func (s *Service) RetryForDebugging(ctx context.Context, orgID, jobID string, by *identity.User) (*builds.Job, error) {
	return s.retry(ctx, orgID, jobID, by, func(q *db.Q, id string) error {
		_, err := q.Exec(`
			UPDATE jobs SET debug = TRUE, initial_timeout = COALESCE(initial_timeout, timeout_minutes), timeout_minutes = timeout_minutes + $2
			WHERE id = $1`, id, DebugMinutes)
		return err
	})
}

// retry creates a new attempt of a job, and calls change with its id once it is saved.
func (s *Service) retry(ctx context.Context, orgID, jobID string, by *identity.User, change func(q *db.Q, id string) error) (*builds.Job, error) {
	buildID, err := s.buildOf(ctx, orgID, jobID)
	if err != nil {
		return nil, err
	}
	var next *builds.Job
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
		if err := change(q, id); err != nil {
			return err
		}
		next, err = builds.JobByID(q, orgID, id)
		return err
	})
	return next, err
}

// retry creates a new attempt of a job.
func (u *unit) retry(jobID string, by *identity.User) (id string, err error) {
	next, err := u.run.Retry(jobID)
	if err != nil {
		return "", err
	}
	_, err = u.q.Exec(`UPDATE jobs SET retried_by = $2 WHERE id = $1`, jobID, by.IDOrNull())
	return next.ID, err
}

// Rebuild creates a build with the commit, branch and details of another one.
func (s *Service) Rebuild(ctx context.Context, o builds.OnBuild, source builds.Source, by *identity.User) (*builds.Build, error) {
	if !o.Pipeline.AllowRebuilds {
		return nil, core.Errorf(core.Unprocessable, "This pipeline does not allow rebuilds")
	}
	return s.Create(ctx, o.Pipeline, Creation{
		Commit:              o.Commit,
		Branch:              o.Branch,
		Source:              source,
		Creator:             by,
		IgnoreBranchFilters: true, // the branch was built before
		RebuiltFrom:         o.ID,
		Details:             o.Details,
	})
}

// retryable maps each state that RetryFailed accepts to its condition.
var retryable = map[string]func(*flow.Job) bool{
	"canceled":    func(j *flow.Job) bool { return j.State == flow.Canceled },
	"expired":     func(j *flow.Job) bool { return j.State == flow.Expired },
	"failed":      func(j *flow.Job) bool { return j.State == flow.Finished && !j.Passed() && !j.SoftFailed },
	"soft_failed": func(j *flow.Job) bool { return j.State == flow.Finished && j.SoftFailed },
	"timed_out":   func(j *flow.Job) bool { return j.State == flow.TimedOut },
}

// RetryableStates returns the states that RetryFailed accepts, sorted.
func RetryableStates() []string { return slices.Sorted(maps.Keys(retryable)) }

// RetryFailed retries the jobs of a build that ended in one of the states, or in any of [RetryableStates] when none
// are given, and returns how many. It skips jobs whose steps do not allow retries.
func (s *Service) RetryFailed(ctx context.Context, b *builds.Build, by *identity.User, states ...string) (retried int, err error) {
	if len(states) == 0 {
		states = RetryableStates()
	}
	err = s.change(ctx, b.OrganizationID, b.ID, func(u *unit) error {
		if err := u.checkMutable(); err != nil {
			return err
		}
		jobs, err := builds.FailedJobs(u.q, b.ID)
		if err != nil {
			return err
		}
		retried = 0
		for _, j := range jobs {
			if !slices.ContainsFunc(states, func(state string) bool { return retryable[state](j) }) {
				continue
			}
			_, err := u.retry(j.ID, by)
			if core.KindOf(err) == core.Unprocessable && !strings.HasPrefix(err.Error(), "Jobs from") {
				continue // its step does not allow it
			}
			if err != nil {
				return err
			}
			retried++
		}
		return nil
	})
	return retried, err
}
