package events

import (
	"time"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

const (
	removalTask = "event-removal"
	removeEvery = time.Hour
	// removeBatch bounds the events that are removed in one transaction.
	removeBatch = 1000
)

// Background registers the removal of old events.
func (s *Service) Background(r *tasks.Runner) { r.Sweep(removalTask, removeEvery, s.removeOld) }

// removeOld removes some of the oldest events if they are too old and all consumers have processed them, then some events
// of organizations that keep them for a shorter time.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	if more, err := s.removeOldest(q); more || err != nil {
		return more, err
	}
	orgs, err := identity.Organizations(q)
	if err != nil {
		return false, err
	}
	for _, org := range orgs {
		days := quotas.Of(&org).EventRetentionDays
		if days == 0 {
			continue
		}
		if more, err := removeOf(q, org.ID, s.clock().AddDate(0, 0, -days)); more || err != nil {
			return more, err
		}
	}
	return false, nil
}

// removeOf removes some events of an organization from before a time, if all consumers have processed them. Events have
// no index by time: it is that of their numbers, so the number is searched.
func removeOf(q *db.Q, orgID string, before time.Time) (more bool, err error) {
	last, err := lastBefore(q, before)
	if err != nil || last == 0 {
		return false, err
	}
	left := int64(removeBatch)
	for _, name := range All {
		removed, err := q.Exec(`
			DELETE FROM events WHERE seq IN (
				SELECT seq FROM events
				WHERE organization_id = $1 AND name = $2 AND seq <= $3 AND seq <= (SELECT MIN(seq) FROM event_cursors)
				ORDER BY seq LIMIT $4)`, orgID, name, last, left)
		if err != nil {
			return false, err
		}
		if left -= removed; left == 0 {
			return true, nil
		}
	}
	return false, nil
}

// lastBefore returns the largest number so that the event with this number, or the next one that exists, is from before a
// time; 0: there is none. Numbers and times have the same order, but for transactions that committed late.
func lastBefore(q *db.Q, before time.Time) (last int64, err error) {
	var low, high int64 // the number is from low to high
	if err := q.QueryRow(`SELECT COALESCE(MIN(seq), 1) - 1, COALESCE(MAX(seq), 0) FROM events`).Scan(&low, &high); err != nil {
		return 0, err
	}
	first := low
	for low < high {
		middle := low + (high-low+1)/2
		var at time.Time
		if err := q.QueryRow(`SELECT created_at FROM events WHERE seq >= $1 ORDER BY seq LIMIT 1`, middle).Scan(db.ToTime(&at)); err != nil {
			return 0, err
		}
		if at.Before(before) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	if low == first {
		return 0, nil
	}
	return low, nil
}

// removeOldest removes some of the oldest events of all organizations.
func (s *Service) removeOldest(q *db.Q) (more bool, err error) {
	var last int64
	err = q.QueryRow(`
		SELECT COALESCE(MAX(seq), 0) FROM (SELECT seq, created_at FROM events ORDER BY seq LIMIT $1) AS oldest
		WHERE created_at < $2 AND seq <= (SELECT MIN(seq) FROM event_cursors)`,
		removeBatch, db.Micros(s.clock().Add(-s.keep))).Scan(&last)
	if err != nil || last == 0 {
		return false, err
	}
	removed, err := q.Exec(`DELETE FROM events WHERE seq <= $1`, last)
	return removed == removeBatch, err
}
