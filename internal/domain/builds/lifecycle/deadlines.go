package lifecycle

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A scheduled job, and one that an agent holds, has a deadline by which it must have left its state. It is a column that
// is written with the state (persist.go, persist_jobs.go); a timer ends or returns the jobs whose deadlines have passed.

const (
	deadlineTimer = "job-deadline"
	// deadlineBatch bounds the jobs whose deadlines are passed together.
	deadlineBatch = 100
	// shortestTimeout is the shortest timeout of a running job.
	shortestTimeout = time.Minute
)

// deadlineOf returns the column value of the deadline of a job that changed state, and tells the timer. The deadline of
// a running job follows from its timeout, in SQL.
func (u *unit) deadlineOf(j *flow.Job) (any, error) {
	if j.Type != flow.Script {
		return nil, nil
	}
	var at time.Time
	switch j.State {
	case flow.Scheduled:
		set, err := u.settingsOf()
		if err != nil {
			return nil, err
		}
		at = j.RunnableAt.Add(set.JobExpiry())
	case flow.Assigned:
		at = u.now.Add(acceptGrace)
	case flow.Accepted:
		at = u.now.Add(startGrace)
	case flow.Canceling, flow.TimingOut:
		at = u.now.Add(u.grace)
	case flow.Running:
		u.timer.Due(u.now.Add(shortestTimeout))
	}
	u.timer.Due(at)
	return db.Micros(at), nil
}

// nextDeadline returns the earliest deadline, the zero time when there is none.
func nextDeadline(q *db.Q) (at time.Time, err error) {
	err = q.QueryRow(`SELECT min(deadline_at) FROM jobs WHERE deadline_at IS NOT NULL`).Scan(db.ToTime(&at))
	return at, err
}

// passDeadlines expires jobs that no agent started, times out those that run for too long, ends those that their agents
// did not stop or start, and returns those that their agents did not accept: some of them, by build.
func (s *Service) passDeadlines(ctx context.Context) error {
	now := s.clock()
	var builds []buildOf
	overdue := map[buildOf][]string{}
	err := s.db.Read(ctx, func(q *db.Q) error {
		return db.Each(q, func(scan db.Scan) error {
			var b buildOf
			var jobID string
			err := scan(&b.orgID, &b.buildID, &jobID)
			if overdue[b] == nil {
				builds = append(builds, b)
			}
			overdue[b] = append(overdue[b], jobID)
			return err
		}, `
			SELECT organization_id, build_id, id FROM jobs
			WHERE deadline_at IS NOT NULL AND deadline_at <= $1
			ORDER BY deadline_at, id LIMIT $2`, db.Micros(now), deadlineBatch)
	})
	if err != nil {
		return err
	}
	var failures []error
	for _, b := range builds {
		err := s.change(ctx, b.orgID, b.buildID, func(u *unit) error { return u.passDeadlines(overdue[b], now) })
		if core.KindOf(err) == core.NotFound { // the pipeline was deleted
			err = s.db.Write(ctx, func(q *db.Q) error { return clearDeadlines(q, overdue[b]) })
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// buildOf identifies a build of an organization.
type buildOf struct{ orgID, buildID string }

// passDeadlines does what follows from the deadlines of jobs, except of those that were given another one.
func (u *unit) passDeadlines(jobIDs []string, now time.Time) error {
	in, arg := u.q.In("id", 2, jobIDs)
	due, err := db.Strings(u.q, `SELECT id FROM jobs WHERE deadline_at IS NOT NULL AND deadline_at <= $1 AND `+in+` ORDER BY position, id`, db.Micros(now), arg)
	if err != nil || len(due) == 0 {
		return err
	}
	if err := u.run.Prefetch(due...); err != nil {
		return err
	}
	var obsolete []string
	for _, id := range due {
		j := u.kept.jobs[id]
		switch j.State { // now: a job that ended may have canceled others
		case flow.Scheduled:
			err = u.expire(j, now)
		case flow.Assigned:
			err = u.run.Return(id, "")
		case flow.Accepted:
			err = u.end(id, "agent_lost", "Its agent did not start it in time.")
		case flow.Running:
			err = u.run.TimeOut(id)
		case flow.Canceling, flow.TimingOut:
			if u.store.before[id].State == j.State {
				err = u.end(id, "cancel", "Its agent did not stop it in time.")
			}
		default:
			obsolete = append(obsolete, id)
		}
		if err != nil {
			return err
		}
	}
	return clearDeadlines(u.q, obsolete)
}

// expire expires a scheduled job, unless the setting was raised meanwhile.
func (u *unit) expire(j *flow.Job, now time.Time) error {
	set, err := u.settingsOf()
	if err != nil {
		return err
	}
	at := j.RunnableAt.Add(set.JobExpiry())
	if !at.After(now) {
		return u.run.Expire(j.ID)
	}
	u.timer.Due(at)
	_, err = u.q.Exec(`UPDATE jobs SET deadline_at = $2 WHERE id = $1`, j.ID, db.Micros(at))
	return err
}

// clearDeadlines removes deadlines of jobs that need none.
func clearDeadlines(q *db.Q, jobIDs []string) error {
	if len(jobIDs) == 0 {
		return nil
	}
	in, arg := q.In("id", 1, jobIDs)
	_, err := q.Exec(`UPDATE jobs SET deadline_at = NULL WHERE `+q.InOrder("jobs", "id", in), arg)
	return err
}

// end ends a job in place of its agent.
func (u *unit) end(jobID, reason, detail string) error {
	if err := explainEnd(u.q, jobID, detail); err != nil {
		return err
	}
	return u.run.Finish(jobID, "", flow.Exit{Status: -1, SignalReason: reason})
}
