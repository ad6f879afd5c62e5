package builds

import (
	"errors"
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// since returns when a job came to where it is, zero when that is not known.
func since(j *Job) time.Time {
	switch j.State {
	case flow.Limited:
		return j.LimitedAt
	case flow.Scheduled, flow.Assigned, flow.Accepted:
		return j.RunnableAt
	case flow.Running, flow.Canceling, flow.TimingOut:
		return j.StartedAt
	case flow.Unblocked:
		return j.UnblockedAt
	}
	if !j.FinishedAt.IsZero() {
		return j.FinishedAt
	}
	return j.CreatedAt
}

// maxWaitsFor bounds the steps that an explanation names.
const maxWaitsFor = 20

// waitsFor returns the steps that a waiting job waits for. Joins, which nobody wrote, stand for what is
// behind them.
func waitsFor(q *db.Q, j *Job) ([]waitedForView, error) {
	if j.State != flow.Waiting && j.State != flow.Pending {
		return []waitedForView{}, nil
	}
	return db.All(q, func(scan db.Scan) (s waitedForView, err error) {
		var key string
		err = scan(&s.ID, db.ToText(&key), db.ToText(&s.Label))
		s.Key = orNull(key)
		return s, err
	}, `
		WITH RECURSIVE behind (id, kind) AS (
			SELECT s.id, s.kind
			FROM step_dependencies e JOIN steps s ON s.id = e.depends_on
			WHERE e.step_id = $1 AND s.outcome IS NULL
			UNION
			SELECT s.id, s.kind
			FROM behind b
			JOIN step_dependencies e ON e.step_id = b.id
			JOIN steps s ON s.id = e.depends_on
			WHERE b.kind IN ('join', 'queue', 'wait') AND s.outcome IS NULL
		)
		SELECT s.id, s.key, d.label
		FROM behind b
		JOIN steps s ON s.id = b.id
		LEFT JOIN step_details d ON d.step_id = s.id
		WHERE b.kind NOT IN ('join', 'queue', 'wait')
		ORDER BY s.position
		LIMIT $2`, j.StepID, maxWaitsFor)
}

// concurrencyOf returns how the concurrency group of a job stands, nil when it has none.
func concurrencyOf(q *db.Q, j *Job) (*jobConcurrencyView, error) {
	c := &jobConcurrencyView{}
	var queued bool
	err := q.QueryRow(`
		SELECT j.concurrency_group, j.concurrency_limit, j.queued FROM jobs j
		WHERE j.id = $1 AND j.concurrency_group IS NOT NULL`, j.ID).Scan(&c.Group, &c.Limit, &queued)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = q.QueryRow(`
		SELECT COUNT(*) FROM jobs j WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND `+slotStates,
		j.OrganizationID, c.Group).Scan(&c.Active)
	if err != nil || !queued {
		return c, err
	}
	err = q.QueryRow(`
		SELECT COUNT(*) FROM jobs j
		WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND j.queued
			AND (`+lineOrder+`) < (SELECT `+lineOrder+` FROM jobs j WHERE j.id = $3)`,
		j.OrganizationID, c.Group, j.ID).Scan(&c.Ahead)
	return c, err
}

// queueOfJob returns the queue of a job, nil when it has none.
func queueOfJob(q *db.Q, j *Job) (*jobQueueView, error) {
	v := &jobQueueView{}
	err := q.QueryRow(`SELECT id, key, dispatch_paused_at IS NOT NULL FROM queues WHERE id = $1`, j.QueueID).Scan(&v.ID, &v.Key, &v.Paused)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return v, err
}

// StackKey returns the key of a stack, "" when there is no such stack.
type StackKey func(q *db.Q, id string) (string, error)

// NameStacks sets how stacks are named that have reserved jobs. It is called before the first request.
func (s *Service) NameStacks(key StackKey) { s.stackKey = key }

// reservationOf returns the reservation of a job, nil when no stack has it reserved.
func (s *Service) reservationOf(q *db.Q, j *Job) (*jobReservationView, error) {
	if j.State != flow.Scheduled || s.stackKey == nil {
		return nil, nil
	}
	r, err := dispatch.ReservationOf(q, j.ID, s.clock())
	if err != nil || r.StackID == "" {
		return nil, err
	}
	key, err := s.stackKey(q, r.StackID)
	if err != nil || key == "" {
		return nil, err
	}
	return &jobReservationView{StackKey: key, Until: core.At(r.Until)}, nil
}
