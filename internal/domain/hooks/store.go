package hooks

import (
	"errors"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

const noDelivery = "No webhook delivery found"

// The finished deliveries that are kept, and how many are removed in one transaction.
const (
	keepDone    = 100 // of each pipeline
	keepFor     = 30 * 24 * time.Hour
	removeBatch = 200 // bodies can be large
)

const summaryColumns = `seq, id, organization_id, pipeline_id, host, event, delivery_id, redelivery_of, state, reason, builds, attempts, created_at, processed_at`

func summaryDest(d *Delivery) []any {
	return []any{&d.Seq, &d.ID, &d.OrganizationID, &d.PipelineID, &d.Host, &d.Event, db.ToText(&d.DeliveryID), db.ToText(&d.RedeliveryOf),
		&d.State, db.ToText(&d.Reason), db.ToJSON(&d.Builds), &d.Attempts, db.ToTime(&d.CreatedAt), db.ToTime(&d.ProcessedAt)}
}

func scanSummary(scan db.Scan) (*Delivery, error) {
	d := &Delivery{}
	return d, scan(summaryDest(d)...)
}

const selectDelivery = `SELECT ` + summaryColumns + `, digest, headers, body FROM webhook_deliveries `

func scanDelivery(scan db.Scan) (*Delivery, error) {
	d := &Delivery{}
	return d, scan(append(summaryDest(d), db.ToText(&d.Digest), db.ToJSON(&d.Headers), &d.Body)...)
}

// add stores a pending delivery and the task that processes it. It reports false if the pipeline has the delivery
// already.
func add(q *db.Q, d *Delivery) (added bool, err error) {
	n, err := q.Exec(`
		INSERT INTO webhook_deliveries (id, organization_id, pipeline_id, host, event, delivery_id, digest, redelivery_of, headers, body, state, attempts, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12)
		ON CONFLICT DO NOTHING`,
		d.ID, d.OrganizationID, d.PipelineID, d.Host, d.Event, db.Text(d.DeliveryID), db.Text(d.Digest), db.Text(d.RedeliveryOf),
		db.JSON(d.Headers), d.Body, Pending, db.Micros(d.CreatedAt))
	if err != nil || n == 0 {
		return false, err
	}
	return true, tasks.Add(q, tasks.Task{Kind: processTask, Key: d.PipelineID, RunAt: d.CreatedAt})
}

// sameAs returns the id of the stored delivery that d repeats, or "" if it was removed in the meantime.
func sameAs(q *db.Q, d *Delivery) (id string, err error) {
	err = q.QueryRow(`
		SELECT id FROM webhook_deliveries
		WHERE pipeline_id = $1 AND (delivery_id = $2 OR digest = $3)
		ORDER BY seq LIMIT 1`, d.PipelineID, db.Text(d.DeliveryID), db.Text(d.Digest)).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// byID returns a delivery of a pipeline, or a NotFound error.
func byID(q *db.Q, pipelineID, id string) (*Delivery, error) {
	return db.Find(q, noDelivery, scanDelivery, selectDelivery+`WHERE id = $1 AND pipeline_id = $2`, id, pipelineID)
}

// oldestPending returns the next delivery of a pipeline to process, or nil.
func oldestPending(q *db.Q, pipelineID string) (*Delivery, error) {
	d, err := db.One(q, scanDelivery, selectDelivery+`
		WHERE pipeline_id = $1 AND state = 'pending' ORDER BY seq LIMIT 1`, pipelineID)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return d, err
}

// finish writes what became of a delivery, and removes the oldest ones of its pipeline beyond keepDone.
func finish(q *db.Q, d *Delivery) error {
	_, err := q.Exec(`
		UPDATE webhook_deliveries SET state = $2, reason = $3, builds = $4, attempts = $5, processed_at = $6
		WHERE seq = $1`, d.Seq, d.State, db.Text(d.Reason), db.JSON(d.Builds), d.Attempts, db.Micros(d.ProcessedAt))
	if err != nil {
		return err
	}
	var last int64
	err = q.QueryRow(`SELECT seq FROM webhook_deliveries WHERE pipeline_id = $1 ORDER BY seq DESC LIMIT 1 OFFSET $2`, d.PipelineID, keepDone).Scan(&last)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	// Those after d wait in a burst; there is no need to look at them each time.
	_, err = q.DeleteSome(removeBatch, "webhook_deliveries", "pipeline_id = $1 AND seq <= $2 AND state <> 'pending'", d.PipelineID, min(last, d.Seq))
	return err
}

func countAttempt(q *db.Q, d *Delivery) error {
	_, err := q.Exec(`UPDATE webhook_deliveries SET attempts = $2 WHERE seq = $1`, d.Seq, d.Attempts)
	return err
}

// removeOld removes deliveries that are older than keepFor.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	n, err := q.DeleteSome(removeBatch, "webhook_deliveries", "created_at < $1 AND state <> 'pending'", db.Micros(s.clock().Add(-keepFor)))
	return n == removeBatch, err
}
