package limits

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestTake_CountsAnExactSlidingSecondInManyProcesses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			key := strconv.Itoa(run)
			limit := rapid.IntRange(1, 8).Draw(rt, "limit")
			hand := newHand()
			processes := make([]*Limiter, rapid.IntRange(1, 4).Draw(rt, "processes"))
			for i := range processes {
				skew := time.Duration(rapid.IntRange(-5000, 5000).Draw(rt, "skew")) * time.Millisecond
				processes[i] = together(d, func() time.Time { return hand.Now().Add(skew) }, hand.Now)
			}
			var through grants
			for range rapid.IntRange(1, 40).Draw(rt, "requests") {
				hand.Advance(time.Duration(rapid.SampledFrom([]int{0, 1, 50, 499, 500, 999, 1000, 2000}).Draw(rt, "ms")) * time.Millisecond)
				l := rapid.SampledFrom(processes).Draw(rt, "process")
				within := through.within(hand.Now())
				s := l.Take(t.Context(), key, limit)
				if s.Refused != (within >= limit) {
					rt.Fatalf("%d of %d within the last second: refused %v", within, limit, s.Refused)
				}
				if !s.Refused {
					through, within = append(through, hand.Now()), within+1
				}
				if s.Current != within {
					rt.Fatalf("wrongClock %+v, want %d of %d", s, within, limit)
				}
			}
		})
	})
}

func TestTake_LetsNoMoreThroughWhenManyAskAtOnce(t *testing.T) {
	for name, limit := range map[string]int{"small": 10, "large": 200} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				hand := newHand() // which does not move: everything is within one second
				var through atomic.Int64
				var all sync.WaitGroup
				for range 3 {
					l := together(d, hand.Now, hand.Now)
					for range 8 {
						all.Go(func() {
							for range limit / 4 {
								if !l.Take(t.Context(), "key", limit).Refused {
									through.Add(1)
								}
							}
						})
					}
				}
				all.Wait()
				if n := int(through.Load()); n > limit || limit <= small && n != limit {
					t.Errorf("%d were let through, and the limit is %d", n, limit)
				}
			})
		})
	}
}

func TestTake_RefusesWithoutQueryWhatIsKnownToBeRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hand := newHand()
		one, other := together(d, hand.Now, hand.Now), together(d, hand.Now, hand.Now)
		for range 5 {
			one.Take(t.Context(), "key", 5)
			hand.Advance(100 * time.Millisecond)
		}
		other.Take(t.Context(), "key", 5)
		before := d.Statements()
		for range 100 {
			if !other.Take(t.Context(), "key", 5).Refused {
				t.Fatal("a sixth request was let through")
			}
		}
		if ran := d.Statements() - before; ran > 0 {
			t.Errorf("it ran %d statements", ran)
		}
		if other.Take(t.Context(), "key", 6).Refused {
			t.Error("a higher limit is not heeded")
		}
		hand.Advance(500 * time.Millisecond) // a second after the first
		if other.Take(t.Context(), "key", 6).Refused {
			t.Error("the request is refused although the window has space again")
		}
	})
}

func TestTake_SurvivesAClockThatIsSetBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hand := newHand()
		l := together(d, core.SystemClock, hand.Now)
		for range 3 {
			l.Take(t.Context(), "key", 3)
		}
		hand.Advance(-time.Hour)
		for i := range 3 {
			if l.Take(t.Context(), "key", 3).Refused {
				t.Errorf("request %d after the clock was set back is refused", i+1)
			}
		}
		if !l.Take(t.Context(), "key", 3).Refused {
			t.Error("a fourth is let through")
		}
	})
}

func TestTake_CountsByTheClockOfTheDatabase(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		wrongClock := newHand() // a process whose clock is years off
		l := together(d, wrongClock.Now, nil)
		if s := l.Take(t.Context(), "key", 10); s.Refused || s.Current != 1 {
			t.Errorf("the first request: %+v", s)
		}
		if s := l.Take(t.Context(), "other key", 1000); s.Refused || s.Current != 1 {
			t.Errorf("the first request of a large limit: %+v", s)
		}
	})
}
