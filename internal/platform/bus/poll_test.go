package bus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestOnPoll_AsksEveryFewSecondsUntilItIsCancelled(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		synctest.Test(t, func(t *testing.T) {
			b := newBus(t, d)
			var first, second int
			cancelFirst := b.OnPoll(func(q *db.Q) error { first++; return nil })
			defer b.OnPoll(func(q *db.Q) error { second++; return errors.New("and it goes on") })()
			ctx, cancel := context.WithCancel(t.Context())
			go b.RunPoll(ctx)
			time.Sleep(time.Minute)
			synctest.Wait()
			if first < 12 || first > 15 {
				t.Errorf("p %d times in a minute", first)
			}
			cancelFirst()
			before := first
			time.Sleep(time.Minute)
			synctest.Wait()
			if first != before || second < 24 {
				t.Errorf("p %d times after the end; the other %d times in all", first-before, second)
			}
			cancel()
			time.Sleep(time.Minute)
			synctest.Wait()
		})
	})
}
