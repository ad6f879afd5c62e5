package tasks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// An alarm is work for a timer that is due at one time, and fails a number of times before it is done.
type alarm struct {
	mu    sync.Mutex
	at    time.Time
	fails int
	done  chan time.Time
}

func (a *alarm) next(*db.Q) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at, nil
}

func (a *alarm) fire(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails > 0 {
		a.fails--
		return errors.New("it failed")
	}
	a.at = time.Time{}
	a.done <- core.SystemClock()
	return nil
}

func (a *alarm) set(at time.Time, fails int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.fails = at, fails
}

func TestTimer_FiresWhenWorkIsDueAndTriesAgainWhenItFails(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		a := &alarm{done: make(chan time.Time, 1)}
		r := newRunner(t, d)
		timer := r.Timer("alarm", a.next, a.fire)
		stop := run(t, r)
		defer stop()
		for fails := range 3 {
			at := after(time.Minute)
			a.set(at, fails)
			timer.Due(at)
			done := <-a.done
			if done.Before(at) || fails == 0 && done.Sub(at) > time.Second || done.Sub(at) > time.Minute {
				t.Errorf("after %d failures it was done %v after it was due", fails, done.Sub(at))
			}
		}
	})
}

func TestTimer_FindsAtItsStartWhatIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		a := &alarm{done: make(chan time.Time, 1), at: after(-time.Hour)}
		r := newRunner(t, d)
		r.Timer("alarm", a.next, a.fire)
		stop := run(t, r)
		defer stop()
		<-a.done
	})
}
