package queuemetrics

import (
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

const (
	// keepFine is how long histograms of five minutes are kept before they are merged, and keep how long hours are.
	keepFine = 7 * 24 * time.Hour
	keep     = 90 * 24 * time.Hour

	retentionTask  = "queue-metrics-retention"
	retentionEvery = time.Hour
	// retentionBatch bounds the rows that are merged or removed in one transaction.
	retentionBatch = 500
)

// Background registers the merging and removal of old histograms.
func (s *Service) Background(r *tasks.Runner) {
	r.Sweep(retentionTask, retentionEvery, func(q *db.Q) (more bool, err error) {
		if more, err := s.mergeOld(q); more || err != nil {
			return more, err
		}
		removed, err := q.DeleteSome(retentionBatch, "queue_waits", `width = $1 AND starts_at < $2`,
			seconds(coarse), db.Micros(s.clock().Add(-keep)))
		return removed == retentionBatch, err
	})
}

// mergeOld merges some of the oldest histograms of five minutes into hours, if they are too old.
func (s *Service) mergeOld(q *db.Q) (more bool, err error) {
	if err := lock(q); err != nil {
		return false, err
	}
	hours := histograms{}
	var last slot
	merged := 0
	err = db.Each(q, func(scan db.Scan) error {
		old, h, err := scanHistogram(scan)
		if err == nil {
			hours.of(slotAt(old.queueID, time.UnixMicro(old.at), coarse)).merge(h)
			last = old
			merged++
		}
		return err
	}, `
		SELECT queue_id, starts_at, waits, waiting_max, running_max FROM queue_waits
		WHERE width = $1 AND starts_at < $2
		ORDER BY starts_at, queue_id LIMIT $3`,
		seconds(fine), db.Micros(s.clock().Add(-keepFine).Truncate(coarse)), retentionBatch)
	if err != nil || merged == 0 {
		return false, err
	}
	if err := merge(q, coarse, hours); err != nil {
		return false, err
	}
	_, err = q.Exec(`DELETE FROM queue_waits WHERE width = $1 AND (starts_at, queue_id) <= ($2, $3)`, seconds(fine), last.at, last.queueID)
	return merged == retentionBatch, err
}
