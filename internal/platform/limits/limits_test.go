package limits

import (
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/core/coretest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// newHand returns a clock that a test moves.
func newHand() *coretest.Clock { return coretest.NewClock(time.UnixMicro(1_700_000_000_000_000).UTC()) }

// alone returns a limiter that counts in memory.
func alone(clock core.Clock) *Limiter {
	return &Limiter{clock: clock, log: slog.New(slog.DiscardHandler), counters: map[string]*counter{}}
}

// together returns a limiter that counts in a database, as one of several processes.
func together(d *db.DB, clock, databaseClock core.Clock) *Limiter {
	l := alone(clock)
	l.shared = &store{db: d, clock: databaseClock, process: core.NewID()}
	return l
}

// granted are the times of granted requests, by the true clock.
type grants []time.Time

// within returns how many there are in the second before a time.
func (g grants) within(now time.Time) (n int) {
	for _, at := range g {
		if now.Sub(at) < window {
			n++
		}
	}
	return n
}

func TestTake_CountsAnExactSlidingSecondInOneProcess(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(rt, "limit")
		hand := newHand()
		l := alone(hand.Now)
		var through grants
		for range rapid.IntRange(1, 200).Draw(rt, "requests") {
			hand.Advance(time.Duration(rapid.IntRange(0, 300).Draw(rt, "ms")) * time.Millisecond)
			through = wantExact(rt, through, l.Take(t.Context(), "key", limit), limit, hand.Now())
		}
	})
}

// wantExact fails unless a request was granted exactly when the limit allowed it.
func wantExact(t *rapid.T, through grants, s Usage, limit int, now time.Time) grants {
	t.Helper()
	within := through.within(now)
	if s.Refused != (within >= limit) {
		t.Fatalf("%d of %d within the last second: refused %v", within, limit, s.Refused)
	}
	if !s.Refused {
		through = append(through, now)
		within++
	}
	if s.Current != within || s.Limit != limit || s.Remaining() != limit-within {
		t.Fatalf("wrongClock %+v, want %d of %d", s, within, limit)
	}
	return through
}

func TestTake_ForgetsKeysThatStoppedAsking(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hand := newHand()
		l := together(d, hand.Now, hand.Now)
		for i := range 20 {
			l.Take(t.Context(), string(rune('a'+i)), 10)
			l.Take(t.Context(), string(rune('A'+i)), 1000)
		}
		hand.Advance(2 * keep)
		l.Take(t.Context(), "last", 10)
		if len(l.counters) != 1 {
			t.Errorf("%d keys have counters, want 1", len(l.counters))
		}
		err := d.Read(t.Context(), func(q *db.Q) error {
			var windows, shares int
			err := q.QueryRow(`SELECT (SELECT COUNT(*) FROM rate_windows), (SELECT COUNT(*) FROM rate_shares)`).Scan(&windows, &shares)
			if windows != 1 || shares != 0 {
				t.Errorf("%d windows and %d shares are kept, want 1 and 0", windows, shares)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestNew_CountsTogetherOnlyWhereThereCanBeOthers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		l := New(d, core.SystemClock, nil, slog.New(slog.DiscardHandler))
		before := d.Statements()
		for range 20 {
			l.Take(t.Context(), "small", 10)
			l.Take(t.Context(), "large", 1000)
		}
		if ran := d.Statements() - before; (ran > 0) != d.Shared() {
			t.Errorf("it ran %d statements", ran)
		}
	})
}

func TestTake_CountsAloneWhileTheDatabaseIsAway(t *testing.T) {
	for name, limit := range map[string]int{"small": 10, "large": 100} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				hand := newHand()
				l := together(d, hand.Now, hand.Now)
				take := func(n int) (through int) {
					for range n {
						if s := l.Take(t.Context(), "key", limit); !s.Refused {
							through++
						}
					}
					return through
				}
				if through := take(4); through != 4 {
					t.Fatalf("%d of 4 were let through", through)
				}
				d.Close()
				if through := take(2 * limit); through != limit-4 {
					t.Errorf("%d more were let through, want %d", through, limit-4)
				}
				hand.Advance(window)
				if through := take(2 * limit); through != limit {
					t.Errorf("%d were let through a second later, want %d", through, limit)
				}
				before := d.Statements()
				hand.Advance(localPeriod)
				take(1)
				hand.Advance(localPeriod / 2)
				take(10)
				if asked := d.Statements() - before; asked > 1 {
					t.Errorf("a database that is away was asked %d times", asked)
				}
			})
		})
	}
}

func TestTake_CountsAloneAfterALongWaitForOthers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hand := newHand()
		slow := func() time.Time { hand.Advance(2 * databaseTimeout); return hand.Now() }
		l := together(d, slow, slow)
		before := d.Statements()
		if l.Take(t.Context(), "key", 10).Refused {
			t.Error("it is refused")
		}
		if ran := d.Statements() - before; ran > 0 {
			t.Errorf("it ran %d statements", ran)
		}
	})
}

func TestTake_WaitsOnlySoLongForADatabaseThatHangs(t *testing.T) {
	for name, limit := range map[string]int{"small": 10, "large": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.New(t, db.PostgreSQL)
			hand := newHand()
			l := together(d, hand.Now, hand.Now)
			l.Take(t.Context(), "key", limit)
			hand.Advance(leaseTime)
			err := d.Write(t.Context(), func(q *db.Q) error {
				// No other write can lock the rows until the end of this one.
				if _, err := q.Exec(`LOCK TABLE rate_windows, rate_shares`); err != nil {
					return err
				}
				for i := range limit {
					if l.Take(t.Context(), "key", limit).Refused {
						t.Errorf("request %d of %d is refused", i+1, limit)
					}
				}
				if !l.Take(t.Context(), "key", limit).Refused {
					t.Error("there is no limit")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
