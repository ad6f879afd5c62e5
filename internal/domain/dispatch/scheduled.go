package dispatch

import (
	"time"

	"stackyard/internal/platform/db"
)

// A ScheduledJob is a runnable job that no stack has reserved.
type ScheduledJob struct {
	ID          string
	Priority    int
	RuleSet     string // id of its rule set
	ScheduledAt time.Time
	PipelineID  string
	BuildID     string
	StepKey     string
}

// Scheduled returns up to limit unreserved jobs of a queue, oldest first, after the job with that time and
// id. It reads only the rows that it returns, from an index.
func Scheduled(q *db.Q, queueID string, after time.Time, afterID string, limit int) ([]ScheduledJob, error) {
	var since int64
	if !after.IsZero() {
		since = after.UnixMicro()
	}
	return db.All(q, func(scan db.Scan) (j ScheduledJob, err error) {
		return j, scan(&j.ID, &j.Priority, &j.RuleSet, db.ToTime(&j.ScheduledAt), &j.PipelineID, &j.BuildID, db.ToText(&j.StepKey))
	}, `
		SELECT job_id, priority, rule_set, scheduled_at, pipeline_id, build_id, step_key FROM runnable
		WHERE queue_id = $1 AND reserved_until IS NULL AND (scheduled_at, job_id) > ($2, $3)
		ORDER BY scheduled_at, job_id
		LIMIT $4`, queueID, since, afterID, limit)
}

// Reservations returns the reservations of some jobs, by job. It includes those that have ended.
func Reservations(q *db.Q, orgID string, jobIDs []string) (map[string]Reservation, error) {
	in, arg := q.In("job_id", 2, jobIDs)
	reservations := make(map[string]Reservation, len(jobIDs))
	err := db.Each(q, func(scan db.Scan) error {
		var id string
		var r Reservation
		err := scan(&id, &r.StackID, db.ToTime(&r.Until))
		reservations[id] = r
		return err
	}, `SELECT job_id, reserved_by, reserved_until FROM runnable WHERE organization_id = $1 AND reserved_by IS NOT NULL AND `+in, orgID, arg)
	return reservations, err
}
