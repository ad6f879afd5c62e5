package limits

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestFair_GivesLittleToThoseWhoWantLittleAndSplitsTheRest(t *testing.T) {
	for _, c := range []struct {
		limit, want int
		others      []int
		get         int
	}{
		{100, 30, nil, 30},
		{100, 100, nil, 100},
		{100, 300, nil, 100},
		{100, 50, []int{50}, 50},
		{100, 60, []int{30}, 60},
		{100, 100, []int{100}, 50},
		{100, 100, []int{10, 100}, 45},
		{100, 10, []int{100, 100}, 10},
		{100, 100, []int{100, 100}, 33},
		{2, 1, []int{1, 1}, 0},
	} {
		if got := fair(c.limit, c.want, c.others); got != c.get {
			t.Errorf("of %d, who wants %d beside %v gets %d, want %d", c.limit, c.want, c.others, got, c.get)
		}
	}
}

func TestFair_GivesAwayNoMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 1000).Draw(t, "limit")
		wants := rapid.SliceOfN(rapid.IntRange(0, 1000), 1, 6).Draw(t, "wants")
		sum, most, unhappy := 0, 0, false
		for i, want := range wants {
			others := append(append([]int{}, wants[:i]...), wants[i+1:]...)
			got := fair(limit, want, others)
			if got > want || got < 0 {
				t.Fatalf("who wants %d gets %d", want, got)
			}
			sum, most, unhappy = sum+got, max(most, got), unhappy || got < want
		}
		if sum > limit {
			t.Fatalf("%v get %d of %d", wants, sum, limit)
		}
		if unhappy && sum <= limit-len(wants) {
			t.Fatalf("%v get %d of %d, and some would have liked the rest", wants, sum, limit)
		}
	})
}

// TestRenew_KeepsEverySecondWithinTheLimit lets processes lease, use up their shares, and lease again, in any
// order and at any time, and checks every second.
func TestRenew_KeepsEverySecondWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 60).Draw(t, "limit")
		var all leases
		var through grants
		mine := map[string]lease{}
		used := map[string]*counter{}
		hand := newHand()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			hand.Advance(time.Duration(rapid.SampledFrom([]int{0, 1, 100, 400, 600, 1000, 2500}).Draw(t, "ms")) * time.Millisecond)
			process := strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "process"))
			if used[process] == nil {
				used[process] = &counter{}
			}
			now := hand.Now().UnixMicro()
			if mine[process].Until <= now || rapid.Bool().Draw(t, "again") {
				want := rapid.IntRange(1, limit).Draw(t, "want")
				all, mine[process] = all.renew(process, want, used[process].within(hand.Now()), limit, now)
			}
			if live := all.leased("", now); live > limit {
				t.Fatalf("the shares add up to %d of %d: %+v", live, limit, all)
			}
			for range rapid.IntRange(0, mine[process].Share).Draw(t, "requests") {
				if !used[process].take(hand.Now(), mine[process].Share).Refused {
					through = append(through, hand.Now())
				}
			}
			if n := through.within(hand.Now()); n > limit {
				t.Fatalf("%d requests in a second, and the limit is %d", n, limit)
			}
		}
	})
}

func TestRenew_ForgetsProcessesThatAreGone(t *testing.T) {
	var all leases
	now := newHand().Now().UnixMicro()
	for i := range 100 {
		all, _ = all.renew(fmt.Sprint("process ", i), 1, 0, 1000, now)
		now += leaseTime.Microseconds()
	}
	if len(all) > 3 {
		t.Errorf("%d leases are kept: %+v", len(all), all)
	}
}

func TestTake_StaysWithinALargeLimitInManyProcesses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			key := strconv.Itoa(run)
			limit := rapid.IntRange(small+1, 100).Draw(rt, "limit")
			hand := newHand()
			processes := make([]*Limiter, rapid.IntRange(1, 3).Draw(rt, "processes"))
			for i := range processes {
				skew := time.Duration(rapid.IntRange(-5000, 5000).Draw(rt, "skew")) * time.Millisecond
				processes[i] = together(d, func() time.Time { return hand.Now().Add(skew) }, hand.Now)
			}
			var through grants
			for range rapid.IntRange(1, 20).Draw(rt, "bursts") {
				hand.Advance(time.Duration(rapid.SampledFrom([]int{0, 1, 100, 400, 1000}).Draw(rt, "ms")) * time.Millisecond)
				l := rapid.SampledFrom(processes).Draw(rt, "process")
				for range rapid.IntRange(1, 60).Draw(rt, "requests") {
					if !l.Take(t.Context(), key, limit).Refused {
						through = append(through, hand.Now())
					}
				}
				n := through.within(hand.Now())
				if n > limit {
					rt.Fatalf("%d requests in a second, and the limit is %d", n, limit)
				}
				if len(processes) == 1 && l.Take(t.Context(), key, limit).Refused != (n == limit) {
					rt.Fatalf("one process lets through %d of %d", n, limit)
				} else if len(processes) == 1 && n < limit {
					through = append(through, hand.Now())
				}
			}
		})
	})
}

func TestTake_MovesSharesToWhoNeedsThem(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const limit = 100
		hand := newHand()
		one, other := together(d, hand.Now, hand.Now), together(d, hand.Now, hand.Now)
		// second makes the given numbers of requests per process, evenly over a second, and returns how many
		// were granted.
		second := func(ofOne, ofOther int) (gotOne, gotOther int) {
			const steps = 20
			for range steps {
				hand.Advance(window / steps)
				gotOne += burst(t, one, limit, ofOne/steps)
				gotOther += burst(t, other, limit, ofOther/steps)
			}
			return gotOne, gotOther
		}
		want := func(what string, wantOne, wantOther int, ofOne, ofOther int) {
			t.Helper()
			for range 4 { // for shares to move
				second(ofOne, ofOther)
			}
			if gotOne, gotOther := second(ofOne, ofOther); gotOne < wantOne || gotOther < wantOther || gotOne+gotOther > limit {
				t.Errorf("%s: they get %d and %d, want %d and %d", what, gotOne, gotOther, wantOne, wantOther)
			}
		}
		want("alone", limit, 0, 200, 0)
		want("both want it all", 50, 50, 200, 200)
		want("one wants little", 20, 70, 20, 200)
		want("there is enough", 40, 40, 40, 40)
		want("the other way round", 0, limit, 0, 200)
	})
}

// burst makes requests at once and returns how many were granted.
func burst(t *testing.T, l *Limiter, limit, requests int) (through int) {
	for range requests {
		if !l.Take(t.Context(), "key", limit).Refused {
			through++
		}
	}
	return through
}

func TestTake_LeasesNowAndThenAndReportsWhatOthersUse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const limit = 1000
		hand := newHand()
		one, other := together(d, hand.Now, hand.Now), together(d, hand.Now, hand.Now)
		before := d.Statements()
		for range 3 {
			for range 300 {
				hand.Advance(window / 300)
				if one.Take(t.Context(), "key", limit).Refused || other.Take(t.Context(), "key", limit).Refused {
					t.Fatal("a request is refused, and there is enough for all")
				}
			}
		}
		if ran := d.Statements() - before; ran > 80 {
			t.Errorf("1800 requests in three seconds ran %d statements", ran)
		}
		if s := other.Take(t.Context(), "key", limit); s.Current < 500 || s.Current > 700 {
			t.Errorf("of 600 requests in a second a process knows of %d", s.Current)
		}
	})
}
