package delivery

import (
	"errors"
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const noDelivery = "No delivery found"

const selectDelivery = `
	SELECT seq, id, organization_id, service_id, event, event_seq, order_key, build_id, redelivery_of, target, host, state, attempts,
		next_attempt_at, created_at, finished_at, status, error, duration, request, response
	FROM deliveries `

func scanDelivery(scan db.Scan) (*Delivery, error) {
	d := &Delivery{}
	var eventSeq, status, duration *int64
	err := scan(&d.Seq, &d.ID, &d.OrganizationID, &d.ReceiverID, &d.Event, &eventSeq, &d.OrderKey, db.ToText(&d.BuildID), db.ToText(&d.RedeliveryOf), db.ToJSON(&d.Target), db.ToText(&d.Host), &d.State, &d.Attempts,
		db.ToTime(&d.NextAttemptAt), db.ToTime(&d.CreatedAt), db.ToTime(&d.FinishedAt), &status, db.ToText(&d.Error), &duration, db.ToJSON(&d.Request), db.ToJSON(&d.Response))
	if eventSeq != nil {
		d.EventSeq = *eventSeq
	}
	if status != nil {
		d.Status = int(*status)
	}
	if duration != nil {
		d.Duration = time.Duration(*duration) * time.Microsecond
	}
	return d, err
}

// insert adds pending deliveries in their order.
func insert(q *db.Q, list ...*Delivery) error {
	return db.InsertMany(q, `
		INSERT INTO deliveries (id, organization_id, service_id, event, event_seq, order_key, build_id, redelivery_of, target, host, state, attempts, created_at)`,
		list, func(d *Delivery) []any {
			return []any{d.ID, d.OrganizationID, d.ReceiverID, d.Event, db.OrNull(d.EventSeq), d.OrderKey, db.Text(d.BuildID), db.Text(d.RedeliveryOf), db.JSON(d.Target), db.Text(d.Host), Pending, 0, db.Micros(d.CreatedAt)}
		}, "")
}

// byID returns a delivery of a receiver, or a NotFound error.
func byID(q *db.Q, receiverID, id string) (*Delivery, error) {
	return db.Find(q, noDelivery, scanDelivery, selectDelivery+`WHERE id = $1 AND service_id = $2`, id, receiverID)
}

// pendingAfter returns pending deliveries of a receiver in order, with the columns that sending needs.
func pendingAfter(q *db.Q, receiverID string, seq int64, limit int) ([]*Delivery, error) {
	return db.All(q, func(scan db.Scan) (*Delivery, error) {
		d := &Delivery{ReceiverID: receiverID, State: Pending}
		var eventSeq *int64
		err := scan(&d.Seq, &d.ID, &d.OrganizationID, &d.Event, &eventSeq, &d.OrderKey, db.ToJSON(&d.Target), &d.Attempts, db.ToTime(&d.NextAttemptAt), db.ToTime(&d.CreatedAt), db.ToText(&d.Error))
		if eventSeq != nil {
			d.EventSeq = *eventSeq
		}
		return d, err
	}, `
		SELECT seq, id, organization_id, event, event_seq, order_key, target, attempts, next_attempt_at, created_at, error
		FROM deliveries
		WHERE service_id = $1 AND state = 'pending' AND seq > $2
		ORDER BY seq LIMIT $3`, receiverID, seq, limit)
}

// update writes what became of attempts, with one statement.
func update(q *db.Q, list []*Delivery) error {
	rows := make([][]any, len(list))
	for i, d := range list {
		rows[i] = []any{d.Seq, string(d.State), d.Attempts, db.Micros(d.NextAttemptAt), db.Micros(d.FinishedAt), db.OrNull(d.Status), db.Text(d.Error),
			d.Duration.Microseconds(), db.JSON(d.Request), db.JSON(d.Response)}
	}
	values, args, err := q.Values(1, []string{"bigint", "text", "bigint", "bigint", "bigint", "bigint", "text", "bigint", "text", "text"}, rows)
	if err != nil {
		return err
	}
	_, err = q.Exec(`
		WITH results (seq, state, attempts, next_attempt_at, finished_at, status, error, duration, request, response) AS (`+values+`)
		UPDATE deliveries SET state = r.state, attempts = r.attempts, next_attempt_at = r.next_attempt_at, finished_at = r.finished_at,
			status = r.status, error = r.error, duration = r.duration,
			request = COALESCE(r.request, deliveries.request), response = r.response
		FROM results r
		WHERE deliveries.seq = r.seq AND deliveries.state = 'pending'`, args...)
	return err
}

// keepDone is how many finished deliveries of a receiver are kept.
const keepDone = 100

// trim removes all but the newest finished deliveries of a receiver.
func trim(q *db.Q, receiverID string) error {
	_, err := q.Exec(`
		DELETE FROM deliveries WHERE service_id = $1 AND state <> 'pending' AND seq <= (
			SELECT seq FROM deliveries WHERE service_id = $1 AND state <> 'pending' ORDER BY seq DESC LIMIT 1 OFFSET $2)`, receiverID, keepDone)
	return err
}

// giveUpBatch bounds the deliveries that are given up or removed in one transaction.
const giveUpBatch = 1000

// retryNow ends the waits of pending deliveries of a receiver.
func retryNow(q *db.Q, receiverID string) error {
	_, err := q.Exec(`
		UPDATE deliveries SET next_attempt_at = NULL
		WHERE service_id = $1 AND state = 'pending' AND next_attempt_at IS NOT NULL`, receiverID)
	return err
}

// giveUp ends pending deliveries of a receiver without sending them, and returns how many.
func giveUp(q *db.Q, receiverID, reason string, now time.Time) (int64, error) {
	return q.Exec(`
		UPDATE deliveries SET state = $2, error = $3, finished_at = $4, next_attempt_at = NULL
		WHERE seq IN (SELECT seq FROM deliveries WHERE service_id = $1 AND state = 'pending' ORDER BY seq LIMIT $5)`,
		receiverID, Failed, reason, db.Micros(now), giveUpBatch)
}

// removeAll removes deliveries of a receiver, and returns how many.
func removeAll(q *db.Q, receiverID string) (removed int64, err error) {
	for _, state := range []string{"state = 'pending'", "state <> 'pending'"} {
		n, err := q.DeleteSome(giveUpBatch, "deliveries", "service_id = $1 AND "+state, receiverID)
		if err != nil {
			return 0, err
		}
		removed += n
	}
	return removed, nil
}

// failures says since when the attempts to send to a receiver have failed. The zero value is a receiver that works.
type failures struct {
	since         time.Time
	count         int
	backoffs      int
	nextAttemptAt time.Time // until when nothing is sent; zero: no rest
}

func failuresOf(q *db.Q, receiverID string) (f failures, err error) {
	err = q.QueryRow(`SELECT since, failures, backoffs, next_attempt_at FROM delivery_failures WHERE service_id = $1`, receiverID).Scan(
		db.ToTime(&f.since), &f.count, &f.backoffs, db.ToTime(&f.nextAttemptAt))
	if errors.Is(err, db.ErrNoRows) {
		return failures{}, nil
	}
	return f, err
}

// restsUntil returns until when nothing is sent to receivers, by id. Those that get no rest are left out.
func restsUntil(q *db.Q, receiverIDs []string) (map[string]time.Time, error) {
	in, arg := q.In("service_id", 1, receiverIDs)
	until := map[string]time.Time{}
	err := db.Each(q, func(scan db.Scan) error {
		var id string
		var at time.Time
		err := scan(&id, db.ToTime(&at))
		until[id] = at
		return err
	}, `SELECT service_id, next_attempt_at FROM delivery_failures WHERE next_attempt_at IS NOT NULL AND `+in, arg)
	return until, err
}

// endRest makes a receiver that rests after failures due now, for one attempt.
func endRest(q *db.Q, receiverID string, now time.Time) error {
	_, err := q.Exec(`UPDATE delivery_failures SET next_attempt_at = $2 WHERE service_id = $1 AND next_attempt_at > $2`, receiverID, db.Micros(now))
	return err
}

func saveFailures(q *db.Q, receiverID string, f failures) error {
	if f == (failures{}) {
		_, err := q.Exec(`DELETE FROM delivery_failures WHERE service_id = $1`, receiverID)
		return err
	}
	_, err := q.Exec(`
		INSERT INTO delivery_failures (service_id, since, failures, backoffs, next_attempt_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (service_id) DO UPDATE SET
			since = excluded.since, failures = excluded.failures, backoffs = excluded.backoffs, next_attempt_at = excluded.next_attempt_at`,
		receiverID, db.Micros(f.since), f.count, f.backoffs, db.Micros(f.nextAttemptAt))
	return err
}

// newDelivery returns a pending delivery of an event to a receiver.
func newDelivery(organizationID, receiverID string, e events.Event, now time.Time) *Delivery {
	d := &Delivery{
		ID:             core.NewID(),
		OrganizationID: organizationID,
		ReceiverID:     receiverID,
		Event:          e.Name,
		EventSeq:       e.Seq,
		OrderKey:       e.BuildID,
		BuildID:        e.BuildID,
		State:          Pending,
		CreatedAt:      now,
	}
	if d.OrderKey == "" {
		d.OrderKey = e.AgentID
	}
	if d.OrderKey == "" {
		d.OrderKey = d.ID // nothing that it must follow
	}
	return d
}
