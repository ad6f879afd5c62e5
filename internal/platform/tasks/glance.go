package tasks

import (
	"time"

	"stackyard/internal/platform/db"
)

// glance asks with one statement when tasks of each kind are to be run, and tells the kinds. Those that
// know it already do nothing; the others look at that time, and not before.
func (r *Runner) glance(q *db.Q) error {
	next, err := nextRuns(q, r.kinds)
	if err != nil {
		return err
	}
	for _, k := range r.kinds {
		at, waits := next[k.name]
		if !waits && k.perpetual {
			at, waits = r.clock(), true
		}
		if waits {
			k.hint(at)
		}
	}
	return nil
}

// hint tells the loop when a task may be due. If it has not heard the hint before, the next is as good.
func (k *kind) hint(at time.Time) {
	select {
	case k.hints <- at:
	default:
	}
}
