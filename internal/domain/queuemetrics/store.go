package queuemetrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/db"
)

// lock keeps other transactions from changing histograms until this one ends.
func lock(q *db.Q) error { return q.LockName("queue metrics") }

// merge adds histograms of a width to those that are stored, with three statements for any number of them.
func merge(q *db.Q, width time.Duration, added histograms) error {
	if len(added) == 0 {
		return nil
	}
	if err := lock(q); err != nil {
		return err
	}
	slots := slices.SortedFunc(maps.Keys(added), compareSlots)
	rows := make([][]any, len(slots))
	for i, s := range slots {
		rows[i] = []any{s.queueID, s.at}
	}
	values, args, err := q.Values(2, []string{"text", "bigint"}, rows)
	if err != nil {
		return err
	}
	merged := histograms{}
	for s, h := range added {
		merged.of(s).merge(h) // the transaction can run again, so added stays as it is
	}
	err = db.Each(q, func(scan db.Scan) error {
		s, h, err := scanHistogram(scan)
		if err == nil {
			merged.of(s).merge(h)
		}
		return err
	}, `
		WITH slots (queue_id, starts_at) AS (`+values+`)
		SELECT w.queue_id, w.starts_at, w.waits, w.waiting_max, w.running_max FROM slots
		JOIN queue_waits w ON w.queue_id = slots.queue_id AND w.width = $1 AND w.starts_at = slots.starts_at`,
		append([]any{seconds(width)}, args...)...)
	if err != nil {
		return err
	}
	return db.InsertMany(q, `INSERT INTO queue_waits (queue_id, width, starts_at, waits, waiting_max, running_max)`, slots, func(s slot) []any {
		return []any{s.queueID, seconds(width), s.at, db.JSON(merged[s]), merged[s].waitingMax, merged[s].runningMax}
	}, `ON CONFLICT (queue_id, width, starts_at) DO UPDATE SET waits = excluded.waits, waiting_max = excluded.waiting_max, running_max = excluded.running_max`)
}

func compareSlots(a, b slot) int {
	return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.queueID, b.queueID))
}

func scanHistogram(scan db.Scan) (s slot, h *histogram, err error) {
	h = &histogram{}
	return s, h, scan(&s.queueID, &s.at, db.ToJSON(h), &h.waitingMax, &h.runningMax)
}

// between calls fn with the histograms of a queue that start in a time range.
func between(q *db.Q, queueID string, from, to time.Time, fn func(at time.Time, h *histogram)) error {
	for _, width := range []time.Duration{fine, coarse} {
		err := db.Each(q, func(scan db.Scan) error {
			s, h, err := scanHistogram(scan)
			if err == nil {
				fn(time.UnixMicro(s.at), h)
			}
			return err
		}, `
			SELECT queue_id, starts_at, waits, waiting_max, running_max FROM queue_waits
			WHERE queue_id = $1 AND width = $2 AND starts_at >= $3 AND starts_at < $4`,
			queueID, seconds(width), db.Micros(from), db.Micros(to))
		if err != nil {
			return err
		}
	}
	return nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
