package dispatch

import (
	"time"

	"stackyard/internal/platform/db"
)

// A QueueLoad is the jobs of a queue that wait for an agent.
type QueueLoad struct {
	QueueID  string // "": their cluster has no default queue
	Waiting  int    // those that stacks have reserved included
	Reserved int
	Oldest   time.Time // since when the oldest waits
}

// Loads returns the queues with waiting jobs.
func Loads(q *db.Q) ([]QueueLoad, error) {
	return db.All(q, func(row db.Scan) (l QueueLoad, err error) {
		return l, row(db.ToText(&l.QueueID), &l.Waiting, &l.Reserved, db.ToTime(&l.Oldest))
	}, `SELECT queue_id, COUNT(*), COUNT(reserved_until), MIN(scheduled_at) FROM runnable GROUP BY queue_id`)
}
