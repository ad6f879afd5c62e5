package dispatch

import (
	"time"

	"stackyard/internal/platform/db"
)

// Put makes newly scheduled jobs runnable. selectRows is a query of the package that owns jobs. It yields the columns
// of [Columns] for these jobs, so that one statement copies them without reading them first. When the transaction
// commits, waiting agents are woken.
func Put(q *db.Q, selectRows string, args ...any) error {
	queues, err := db.Strings(q, `
		INSERT INTO runnable (`+Columns+`)
		`+selectRows+`
		RETURNING queue_id`, args...)
	if err != nil {
		return err
	}
	announce(q, queues)
	return nil
}

// A Runnable is a job that was scheduled when it was created.
type Runnable struct {
	JobID, OrganizationID, BuildID, PipelineID string
	QueueID                                    string // empty: none yet
	RuleSet                                    string // id; empty: no rules
	Priority                                   int
	ScheduledAt                                time.Time
	StepKey                                    string
}

// Add makes new jobs runnable. When the transaction commits, waiting agents are woken.
func Add(q *db.Q, jobs []Runnable) error {
	queues := make([]string, len(jobs))
	for i, j := range jobs {
		queues[i] = j.QueueID
	}
	announce(q, queues)
	return db.InsertLater(q, `INSERT INTO runnable (`+Columns+`)`, jobs, func(j Runnable) []any {
		return []any{j.JobID, j.OrganizationID, j.BuildID, j.PipelineID, db.Text(j.QueueID), j.RuleSet, j.Priority, db.Micros(j.ScheduledAt), nil, db.Text(j.StepKey)}
	}, "")
}

// Columns are the columns of a runnable job. rule_set is "" for a job without rules; retry_from is the agent of the
// attempt before.
const Columns = `job_id, organization_id, build_id, pipeline_id, queue_id, rule_set, priority, scheduled_at, retry_from, step_key`

// announce notifies the waiters of queues.
func announce(q *db.Q, queueIDs []string) {
	announced := map[string]bool{"": true}
	for _, id := range queueIDs {
		if !announced[id] {
			announced[id] = true
			q.Announce(Topic(id))
		}
	}
}

// Remove deletes jobs that are no longer scheduled.
func Remove(q *db.Q, jobIDs ...string) error {
	if len(jobIDs) == 0 {
		return nil
	}
	in, arg := q.In("job_id", 1, jobIDs)
	return q.Later(`DELETE FROM runnable WHERE `+q.InOrder("runnable", "job_id", in), arg)
}

// Take deletes jobs that are assigned to agents. The write fails with the error taken unless all of them were runnable
// and no stack had reserved one.
func Take(q *db.Q, taken error, jobIDs ...string) error {
	if len(jobIDs) == 0 {
		return nil
	}
	in, arg := q.In("job_id", 1, jobIDs)
	check := func(deleted int64) error {
		if int(deleted) != len(jobIDs) {
			return taken
		}
		return nil
	}
	return q.LaterIf(check, `DELETE FROM runnable WHERE `+q.InOrder("runnable", "job_id", "reserved_until IS NULL AND "+in), arg)
}

// Reprioritize changes the priority of a job, if it is runnable.
func Reprioritize(q *db.Q, jobID string, priority int) error {
	_, err := q.Exec(`UPDATE runnable SET priority = $2 WHERE job_id = $1`, jobID, priority)
	return err
}

// SetQueue moves runnable jobs that have no queue into one.
func SetQueue(q *db.Q, queueID string, jobIDs ...string) error {
	q.Announce(Topic(queueID))
	in, arg := q.In("job_id", 2, jobIDs)
	_, err := q.Exec(`UPDATE runnable SET queue_id = $1 WHERE `+q.InOrder("runnable", "job_id", "queue_id IS NULL AND "+in), queueID, arg)
	return err
}

// Topic is the bus topic of a queue that may have more jobs: it has a new runnable job, or was resumed.
func Topic(queueID string) string { return "queue:" + queueID }
