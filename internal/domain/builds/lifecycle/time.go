package lifecycle

import (
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// stopGrace is how long an agent may take to stop a job that was canceled or timed out, and to report it:
// agents poll every few seconds, give the process ten seconds to end, and upload artifacts. Then the server
// ends the job. It equals the time after which a silent agent is lost, so that no job is being stopped for
// longer.
const stopGrace = 3 * time.Minute

// acceptGrace is how long an agent may take to accept a job that is assigned to it, and startGrace how long it
// may then take to start it. Agents that miss the response retry for two minutes.
const acceptGrace, startGrace = 30 * time.Second, 5 * time.Minute

// expireBatch bounds the jobs that expire in one transaction.
const expireBatch = 200

const (
	// deadlineTask is the task that ends or returns a job that stays in a state for too long.
	deadlineTask = "job-deadline"
	// expiryTask is the task that expires scheduled jobs of a build.
	expiryTask = "job-expiry"
)

// A deadline is the payload of a deadlineTask.
type deadline struct {
	OrganizationID string `json:"organization_id"`
	BuildID        string `json:"build_id"`
	// State is the state that the job must have left. If the job has left it, the task does nothing.
	State flow.JobState `json:"state"`
}

type expiry struct {
	OrganizationID string `json:"organization_id"`
}

// updateTimers sets and removes the deadlines of command jobs that changed state. A build has one expiry task for all
// its scheduled jobs; each job that an agent holds has a deadline of its own.
func (u *unit) updateTimers(changes []flow.JobChange) error {
	var started []string
	var scheduled time.Time
	for _, change := range changes {
		j := change.Job
		if j.Type != flow.Script || j.State == change.From {
			continue
		}
		if change.From == flow.Assigned && j.State != flow.Accepted {
			u.then.forget(deadlineTask, j.ID)
		}
		switch {
		case j.State == flow.Assigned:
			u.setDeadline(j.ID, j.State, u.now.Add(acceptGrace))
		case j.State == flow.Accepted:
			u.setDeadline(j.ID, j.State, u.now.Add(startGrace))
		case j.State == flow.Scheduled:
			if scheduled.IsZero() || j.RunnableAt.Before(scheduled) {
				scheduled = j.RunnableAt
			}
		case j.State == flow.Running:
			started = append(started, j.ID)
		case j.State == flow.Canceling || j.State == flow.TimingOut:
			u.setDeadline(j.ID, j.State, u.now.Add(u.grace))
		case change.From == flow.Accepted || change.From == flow.Running || change.From == flow.Canceling || change.From == flow.TimingOut:
			u.then.forget(deadlineTask, j.ID)
		}
	}
	if err := u.setTimeouts(started); err != nil || scheduled.IsZero() {
		return err
	}
	set, err := settings.Of(u.q, u.build.OrganizationID)
	if err != nil {
		return err
	}
	u.expireAt(scheduled.Add(set.JobExpiry()))
	return nil
}

// setDeadline sets the time at which a job must have left a state.
func (u *unit) setDeadline(jobID string, state flow.JobState, at time.Time) {
	u.then.reset = append(u.then.reset, u.deadline(jobID, state, at))
}

func (u *unit) deadline(jobID string, state flow.JobState, at time.Time) tasks.Task {
	return tasks.Task{
		Kind:    deadlineTask,
		Key:     jobID,
		Payload: deadline{u.build.OrganizationID, u.build.ID, state},
		RunAt:   at,
	}
}

// setTimeouts sets the deadlines of jobs that just started, according to their timeouts. Without a timeout, it
// removes the deadline for starting.
func (u *unit) setTimeouts(jobIDs []string) error {
	if len(jobIDs) == 0 {
		return nil
	}
	in, arg := u.q.In("id", 1, jobIDs)
	_, err := db.All(u.q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var minutes *int
		if err := scan(&id, &minutes); err != nil {
			return none, err
		}
		if minutes == nil {
			u.then.forget(deadlineTask, id)
		} else {
			u.setDeadline(id, flow.Running, u.now.Add(time.Duration(*minutes)*time.Minute))
		}
		return none, nil
	}, `SELECT id, timeout_minutes FROM jobs WHERE `+in, arg)
	return err
}

// expireAt schedules the expiry task of the build.
func (u *unit) expireAt(at time.Time) {
	u.then.begin = append(u.then.begin, expiryOf(u.build.OrganizationID, u.build.ID, at))
}

func expiryOf(orgID, buildID string, at time.Time) tasks.Task {
	return tasks.Task{Kind: expiryTask, Key: buildID, Payload: expiry{orgID}, RunAt: at}
}

// onTime runs one unit of work on a build, if it exists, in the transaction that ends a task.
func (s *Service) onTime(q *db.Q, t *tasks.Due, orgID, buildID string, fn func(u *unit) error) error {
	then := &followUps{task: t, events: s.events}
	u, err := s.open(q, orgID, buildID, then)
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if err := fn(u); err != nil {
		return err
	}
	if err := u.close(); err != nil {
		return err
	}
	return then.save(q, u.now)
}

// passDeadline times out a job that runs for too long, ends one that its agent did not stop or start, and
// returns one that its agent did not accept.
func (s *Service) passDeadline(q *db.Q, t *tasks.Due) error {
	var d deadline
	if err := t.Payload(&d); err != nil {
		return err
	}
	return s.onTime(q, t, d.OrganizationID, d.BuildID, func(u *unit) error {
		jobs, err := builds.FlowStore(q, d.BuildID).Jobs(t.Key)
		switch {
		case err != nil || len(jobs) == 0 || jobs[0].State != d.State:
			return err
		case d.State == flow.Assigned:
			return u.run.Return(t.Key, "")
		case d.State == flow.Accepted:
			return u.end(t.Key, "agent_lost", "Its agent did not start it in time.")
		case d.State == flow.Running:
			return u.run.TimeOut(t.Key)
		}
		return u.end(t.Key, "cancel", "Its agent did not stop it in time.")
	})
}

// end ends a job in place of its agent.
func (u *unit) end(jobID, reason, detail string) error {
	if err := explainEnd(u.q, jobID, detail); err != nil {
		return err
	}
	return u.run.Finish(jobID, "", flow.Exit{Status: -1, SignalReason: reason})
}

// expireJobs ends jobs of a build that no agent started in time.
func (s *Service) expireJobs(q *db.Q, t *tasks.Due) error {
	var e expiry
	if err := t.Payload(&e); err != nil {
		return err
	}
	return s.onTime(q, t, e.OrganizationID, t.Key, func(u *unit) error {
		set, err := settings.Of(q, e.OrganizationID)
		if err != nil {
			return err
		}
		longest, err := longestScheduled(q, t.Key, expireBatch+1)
		if err != nil {
			return err
		}
		before := u.build.State
		for i, j := range longest {
			// When a build starts failing, other jobs may be canceled too, so the rest is read again.
			at := j.since.Add(set.JobExpiry())
			if at.After(u.now) || i == expireBatch || u.build.State != before {
				u.expireAt(at)
				return nil
			}
			if err := u.run.Expire(j.id); err != nil {
				return err
			}
		}
		return nil
	})
}

type scheduledJob struct {
	id    string
	since time.Time
}

// longestScheduled returns the command jobs of a build that have been scheduled for longest.
func longestScheduled(q *db.Q, buildID string, limit int) ([]scheduledJob, error) {
	return db.All(q, func(scan db.Scan) (j scheduledJob, err error) {
		return j, scan(&j.id, db.ToTime(&j.since))
	}, `
		SELECT id, runnable_at FROM jobs
		WHERE build_id = $1 AND type = $2 AND state = $3
		ORDER BY runnable_at, position, id
		LIMIT $4`, buildID, flow.Script, flow.Scheduled, limit)
}

// expiryBatch bounds the builds whose expiry is rescheduled in one transaction.
const expiryBatch = 500

// applyExpiry reschedules the expiry of an organization's scheduled jobs after the setting changed. The task's
// key is the organization id and, from the second batch on, the last build of the batch before.
func (s *Service) applyExpiry(q *db.Q, t *tasks.Due) error {
	orgID, after, _ := strings.Cut(t.Key, " ")
	ids, err := db.Strings(q, `
		SELECT b.id FROM pipelines p
		JOIN builds b ON b.pipeline_id = p.id
		WHERE p.organization_id = $1 AND b.finished_at IS NULL AND b.scheduled_jobs > 0 AND b.id > $2
		ORDER BY b.id
		LIMIT $3`, orgID, after, expiryBatch)
	if err != nil {
		return err
	}
	now := s.clock()
	runs := make([]tasks.Task, len(ids), len(ids)+1)
	for i, id := range ids {
		runs[i] = expiryOf(orgID, id, now)
	}
	if len(ids) == expiryBatch {
		runs = append(runs, tasks.Task{Kind: t.Kind, Key: orgID + " " + ids[len(ids)-1], RunAt: now})
	}
	return tasks.Add(q, runs...)
}
