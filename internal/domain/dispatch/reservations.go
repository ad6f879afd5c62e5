package dispatch

import (
	"errors"
	"time"

	"stackyard/internal/platform/db"
)

// A Reservation keeps a runnable job for one stack until a time. After its end the job remembers which
// stack had it last, until another stack reserves it.
type Reservation struct {
	StackID string
	Until   time.Time // zero: it has ended
}

// Live reports whether the reservation holds at a time.
func (r Reservation) Live(now time.Time) bool { return now.Before(r.Until) }

// Reserve reserves jobs of a cluster for a stack, or extends its reservations of them, and returns those
// that are reserved now. A reservation that already ends later keeps its end. Left out are jobs that are not
// runnable, that another stack has reserved, that are in a hosted queue, and that are in a paused one unless
// the stack has them already.
func Reserve(q *db.Q, orgID, clusterID, stackID string, jobIDs []string, now, until time.Time) ([]string, error) {
	if err := Lock(q, jobIDs...); err != nil {
		return nil, err
	}
	in, arg := q.In("r.job_id", 6, jobIDs)
	return db.Strings(q, `
		UPDATE runnable AS r SET reserved_by = $3,
			reserved_until = CASE WHEN r.reserved_by = $3 AND r.reserved_until > $5 THEN r.reserved_until ELSE $5 END
		FROM queues qu JOIN clusters c ON c.id = qu.cluster_id
		WHERE qu.id = r.queue_id AND r.organization_id = $1 AND c.id = $2 AND NOT c.hosted AND qu.hosted_agents IS NULL
			AND ((r.reserved_until IS NULL OR r.reserved_until <= $4) AND qu.dispatch_paused_at IS NULL
				OR r.reserved_by = $3 AND r.reserved_until > $4)
			AND `+in+`
		RETURNING job_id`, orgID, clusterID, stackID, db.Micros(now), db.Micros(until), arg)
}

// Lock keeps others from reserving jobs, handing them out or taking them away until the end of the write:
// always in the same order, so that two who want the same jobs do not wait for each other.
func Lock(q *db.Q, jobIDs ...string) error {
	return q.LockAll("runnable", "job_id", jobIDs)
}

// ReservedBy returns the end of a stack's reservations of some jobs, by job; zero where it has been
// released.
func ReservedBy(q *db.Q, orgID, stackID string, jobIDs []string) (map[string]time.Time, error) {
	in, arg := q.In("job_id", 3, jobIDs)
	until := make(map[string]time.Time, len(jobIDs))
	err := db.Each(q, func(scan db.Scan) (err error) {
		var id string
		var at time.Time
		err = scan(&id, db.ToTime(&at))
		until[id] = at
		return err
	}, `SELECT job_id, reserved_until FROM runnable WHERE organization_id = $1 AND reserved_by = $2 AND `+in, orgID, stackID, arg)
	return until, err
}

// IsReservedBy reports whether a stack has a job reserved.
func IsReservedBy(q *db.Q, orgID, stackID, jobID string, now time.Time) (bool, error) {
	until, err := ReservedBy(q, orgID, stackID, []string{jobID})
	return now.Before(until[jobID]), err
}

// ReservationOf returns the reservation of a job; the zero Reservation where no stack has it reserved.
func ReservationOf(q *db.Q, jobID string, now time.Time) (r Reservation, err error) {
	err = q.QueryRow(`
		SELECT reserved_by, reserved_until FROM runnable
		WHERE job_id = $1 AND reserved_until IS NOT NULL AND reserved_until > $2`, jobID, db.Micros(now)).Scan(&r.StackID, db.ToTime(&r.Until))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return r, err
}

// A ReservedJob is a job that a stack has reserved.
type ReservedJob struct {
	ID         string
	PipelineID string
	Until      time.Time
}

// ReservedJobs returns some of the jobs that a stack has reserved, those first whose reservations end first.
func ReservedJobs(q *db.Q, stackID string, now time.Time, limit int) ([]ReservedJob, error) {
	return db.All(q, func(scan db.Scan) (j ReservedJob, err error) {
		return j, scan(&j.ID, &j.PipelineID, db.ToTime(&j.Until))
	}, `
		SELECT job_id, pipeline_id, reserved_until FROM runnable
		WHERE reserved_by = $1 AND reserved_until IS NOT NULL AND reserved_until > $2
		ORDER BY reserved_until, job_id LIMIT $3`, stackID, db.Micros(now), limit)
}

// CountReserved returns how many jobs stacks have reserved, by stack.
func CountReserved(q *db.Q, stackIDs []string, now time.Time) (map[string]int, error) {
	in, arg := q.In("reserved_by", 2, stackIDs)
	counts := make(map[string]int, len(stackIDs))
	err := db.Each(q, func(scan db.Scan) (err error) {
		var id string
		var n int
		err = scan(&id, &n)
		counts[id] = n
		return err
	}, `
		SELECT reserved_by, COUNT(*) FROM runnable
		WHERE reserved_until IS NOT NULL AND reserved_until > $1 AND `+in+`
		GROUP BY reserved_by`, db.Micros(now), arg)
	return counts, err
}

// Unreserved returns the runnable jobs among some jobs that no stack has reserved, and locks them until the end of
// the transaction.
func Unreserved(q *db.Q, jobIDs []string) ([]string, error) {
	in, arg := q.In("job_id", 1, jobIDs)
	return db.Strings(q, `SELECT job_id FROM runnable WHERE reserved_until IS NULL AND `+in+` ORDER BY job_id `+q.ForUpdate(), arg)
}

// Release ends the reservations of a stack that have run out, or all of them when it goes away, and
// returns when the next one does; zero when it has none left.
func Release(q *db.Q, stackID string, now time.Time, all bool) (next time.Time, err error) {
	before := db.Micros(now)
	if all {
		before = int64(1<<63 - 1)
	}
	over, err := db.Strings(q, `
		SELECT job_id FROM runnable
		WHERE reserved_by = $1 AND reserved_until IS NOT NULL AND reserved_until <= $2
		ORDER BY job_id`+q.ForUpdate(), stackID, before)
	if err != nil {
		return next, err
	}
	queues, err := release(q, stackID, over)
	if err != nil {
		return next, err
	}
	announce(q, queues)
	err = q.QueryRow(`
		SELECT reserved_until FROM runnable
		WHERE reserved_by = $1 AND reserved_until IS NOT NULL
		ORDER BY reserved_until LIMIT 1`, stackID).Scan(db.ToTime(&next))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return next, err
}

// ReleaseJob ends the reservation of a job by a stack, and reports whether there was one.
func ReleaseJob(q *db.Q, stackID, jobID string, now time.Time) (bool, error) {
	live, err := db.Strings(q, `
		SELECT job_id FROM runnable
		WHERE job_id = $1 AND reserved_by = $2 AND reserved_until IS NOT NULL AND reserved_until > $3`+q.ForUpdate(), jobID, stackID, db.Micros(now))
	if err != nil || len(live) == 0 {
		return false, err
	}
	queues, err := release(q, stackID, live)
	announce(q, queues)
	return true, err
}

// release ends reservations of a stack, and returns the queues that the jobs are in.
func release(q *db.Q, stackID string, jobIDs []string) (queues []string, err error) {
	if len(jobIDs) == 0 {
		return nil, nil
	}
	in, arg := q.In("job_id", 2, jobIDs)
	return db.Strings(q, `
		UPDATE runnable SET reserved_until = NULL
		WHERE reserved_by = $1 AND `+in+`
		RETURNING queue_id`, stackID, arg)
}
