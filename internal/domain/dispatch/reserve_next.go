package dispatch

import (
	"errors"
	"time"

	"stackyard/internal/platform/db"
)

// ReserveNext reserves the best unreserved job of a queue for a machine of a hosted queue, and returns the job; "" if
// there is none. The caller has made sure that the queue is hosted and not paused.
func ReserveNext(q *db.Q, queueID, machineID string, until time.Time) (jobID string, err error) {
	// One machine at a time: two would want the same job.
	if err := q.LockName("hosted queue " + queueID); err != nil {
		return "", err
	}
	err = q.QueryRow(`
		SELECT job_id FROM runnable
		WHERE queue_id = $1 AND reserved_until IS NULL
		ORDER BY priority DESC, scheduled_at, job_id LIMIT 1`+q.ForUpdate(), queueID).Scan(&jobID)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, err = q.Exec(`UPDATE runnable SET reserved_by = $2, reserved_until = $3 WHERE job_id = $1`, jobID, machineID, db.Micros(until))
	return jobID, err
}
