package lifecycle

import (
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// Most changes of jobs are the four that agents cause: assigned, accepted, started, finished. Each of them writes only
// the columns that it changes, for many jobs at once, so that few indexes are touched. Other changes write all columns
// that flow may change.

// updateJobs writes changed jobs. It fails with errMoved if one is no longer in the state that it was read in.
func (u *unit) updateJobs(changes []flow.JobChange) (err error) {
	var ids []string
	var assigned [][]any
	var accepted, started, finished, others batches
	for _, c := range changes {
		j := c.Job
		if c.From == "" {
			continue
		}
		ids = append(ids, j.ID)
		switch {
		case u.isAssignment(c):
			assigned = append(assigned, []any{j.ID, j.AgentID})
		case !u.isPlain(c):
			var deadline any
			if c.From != j.State {
				if deadline, err = u.deadlineOf(j); err != nil {
					return err
				}
			}
			others.add(j.ID, append(otherColumns(c), deadline)...)
		case j.State == flow.Accepted:
			deadline, err := u.deadlineOf(j)
			if err != nil {
				return err
			}
			accepted.add(j.ID, c.From, j.State, deadline)
		case j.State == flow.Running:
			u.timer.Due(u.now.Add(shortestTimeout))
			started.add(j.ID, c.From, j.State, db.Micros(j.StartedAt))
		default:
			finished.add(j.ID, c.From, j.State, number(j.ExitStatus), db.Text(j.Signal), db.Text(j.SignalReason), j.SoftFailed, db.Micros(j.FinishedAt))
		}
	}
	if len(ids) > 1 { // stacks lock jobs without the build's lock
		if err := u.q.LockAllLater("jobs", "id", ids); err != nil {
			return err
		}
	}
	if err := u.assign(assigned); err != nil {
		return err
	}
	for _, write := range []struct {
		*batches
		set string
	}{
		{&accepted, `state = $3, deadline_at = $4`},
		{&started, `state = $3, started_at = $4, deadline_at = $4 + timeout_minutes * 60000000`},
		{&finished, `state = $3, exit_status = $4, signal = $5, signal_reason = $6, soft_failed = $7, finished_at = $8, deadline_at = NULL`},
		{&others, setOtherColumns},
	} {
		if err := write.update(u.q, "jobs", "AND state = $2", write.set); err != nil {
			return err
		}
	}
	return nil
}

// isAssignment reports whether a change only assigns a scheduled job to an agent.
func (u *unit) isAssignment(c flow.JobChange) bool {
	return c.From == flow.Scheduled && c.Job.State == flow.Assigned && c.Job.Type == flow.Script && u.restIsSame(c.Job)
}

// isPlain reports whether a change is one of those that an agent reports, and changes nothing besides.
func (u *unit) isPlain(c flow.JobChange) bool {
	j := c.Job
	if j.Type != flow.Script || j.PromisedExitStatus != nil || u.store.before[j.ID].AgentID != j.AgentID || !u.restIsSame(j) {
		return false
	}
	switch j.State {
	case flow.Accepted:
		return c.From == flow.Assigned
	case flow.Running:
		return c.From == flow.Accepted
	case flow.Finished:
		return c.From == flow.Running
	}
	return false
}

// rest are the fields of a job that agents do not change.
type rest struct {
	brokenReason, retriedIn                                    string
	unreachable, promiseIgnored, promiseFails, retried, queued bool
	promised                                                   *int
	retries, rules                                             int
	wait                                                       *time.Duration
	promisedAt, limitedAt, runnableAt, expiredAt, unblockedAt  time.Time
}

func restOf(j *flow.Job) rest {
	return rest{
		j.BrokenReason, j.RetriedIn,
		j.Unreachable, j.PromiseIgnored, j.PromiseFails, j.Retried, j.Queued,
		j.PromisedExitStatus,
		j.RetriesCount, len(j.RuleUses),
		j.ConcurrencyWait,
		j.PromisedAt, j.LimitedAt, j.RunnableAt, j.ExpiredAt, j.UnblockedAt,
	}
}

func (u *unit) restIsSame(j *flow.Job) bool {
	before, ok := u.store.before[j.ID]
	return ok && restOf(&before) == restOf(j)
}

// assign writes the agents of scheduled jobs.
func (u *unit) assign(assigned [][]any) error {
	if len(assigned) == 0 {
		return nil
	}
	deadline := u.now.Add(acceptGrace)
	u.timer.Due(deadline)
	const set = `UPDATE jobs SET state = 'assigned', deadline_at = $1, agent_id = `
	if len(assigned) == 1 {
		return u.q.LaterIf(rows(1), set+`$3 WHERE id = $2 AND state = 'scheduled'`, db.Micros(deadline), assigned[0][0], assigned[0][1])
	}
	values, args, err := u.q.Values(2, []string{"text", "text"}, assigned)
	if err != nil {
		return err
	}
	return u.q.LaterIf(rows(len(assigned)), `WITH holders (job_id, agent_id) AS (`+values+`) `+
		set+`holders.agent_id FROM holders WHERE jobs.id = holders.job_id AND jobs.state = 'scheduled'`, append([]any{db.Micros(deadline)}, args...)...)
}

// otherColumns are the values of setOtherColumns, without the deadline.
func otherColumns(c flow.JobChange) []any {
	j := c.Job
	return []any{c.From, j.State, db.Text(j.BrokenReason), j.Unreachable, number(j.ExitStatus), db.Text(j.Signal), db.Text(j.SignalReason),
		j.SoftFailed, number(j.PromisedExitStatus), db.Micros(j.PromisedAt), j.PromiseFails, j.PromisedFailure(), j.Retried, db.Text(j.RetriedIn),
		j.RetriesCount, db.JSON(j.RuleUses), j.Queued, duration(j.ConcurrencyWait),
		db.Micros(j.LimitedAt), db.Micros(j.RunnableAt), db.Micros(j.StartedAt), db.Micros(j.FinishedAt), db.Micros(j.ExpiredAt), db.Micros(j.UnblockedAt), j.PromiseIgnored}
}

const setOtherColumns = `
	state = $3, broken_reason = $4, unreachable = $5, exit_status = $6, signal = $7, signal_reason = $8,
	soft_failed = $9, promised_exit_status = $10, promised_at = $11, promise_fails = $12, promised_failure = $13, retried = $14, retried_in = $15,
	retries_count = $16, rule_uses = $17, queued = $18, concurrency_wait = $19,
	limited_at = $20, runnable_at = $21, started_at = $22, finished_at = $23, expired_at = $24, unblocked_at = $25, promise_ignored = $26,
	agent_id = CASE WHEN $3 = 'scheduled' THEN NULL ELSE agent_id END,
	deadline_at = CASE WHEN $2 = $3 THEN deadline_at WHEN $3 = 'running' AND type = 'script' THEN $22 + timeout_minutes * 60000000 ELSE $27 END`

// saveDetails writes why jobs ended.
func (u *unit) saveDetails() error {
	for jobID, detail := range u.details {
		if err := explainEnd(u.q, jobID, detail); err != nil {
			return err
		}
	}
	u.details = nil
	return nil
}
