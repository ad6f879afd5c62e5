package tasks

import (
	"time"

	"stackyard/internal/platform/db"
)

// poll finds out with one statement when tasks of each kind are due, and passes that to the kinds. It does
// nothing for those that know already; the others scan at that time.
func (r *Runner) poll(q *db.Q) error {
	next, err := nextRuns(q, r.kinds)
	if err != nil {
		return err
	}
	for _, k := range r.kinds {
		at, ok := next[k.name]
		if !ok && k.perpetual {
			at, ok = r.clock(), true
		}
		if ok {
			k.hint(at)
		}
	}
	for _, t := range r.timers {
		if err := t.poll(q); err != nil {
			return err
		}
	}
	return nil
}

// hint passes the time at which a task may be due to the loop. If an earlier hint is still pending, this one is
// dropped; the next poll repeats it.
func (k *kind) hint(at time.Time) {
	select {
	case k.hints <- at:
	default:
	}
}
