package limits

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// tried runs fn in a write.
func tried(t *testing.T, d *db.DB, fn func(q *db.Q) (Count, error)) (count Count) {
	t.Helper()
	err := d.Write(t.Context(), func(q *db.Q) (err error) {
		count, err = fn(q)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestTries_AreForgottenSomeTimeAfterTheFirst(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hand := newHand()
		guesses := Tries{Key: "guesses", Most: 3, Within: 10 * time.Minute}
		add := func() Count { return tried(t, d, func(q *db.Q) (Count, error) { return guesses.Add(q, hand.Now()) }) }
		count := func() Count { return tried(t, d, func(q *db.Q) (Count, error) { return guesses.Count(q, hand.Now()) }) }
		if got := count(); got != (Count{}) {
			t.Errorf("before the first there are %+v", got)
		}
		ends := hand.Now().Add(guesses.Within)
		for n := 1; n <= 5; n++ {
			if got := add(); got != (Count{n, ends}) || got != count() {
				t.Errorf("at number %d there are %+v, ending at %v", n, got, ends)
			}
			hand.Advance(time.Minute)
		}
		hand.Advance(ends.Sub(hand.Now()))
		if got := count(); got.N != 0 {
			t.Errorf("at their end there are %+v", got)
		}
		if got := add(); got != (Count{1, ends.Add(guesses.Within)}) {
			t.Errorf("anew there are %+v", got)
		}
	})
}

func TestTries_CanBeTakenBackAndForgotten(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hand := newHand()
		one, other := Tries{Key: "one", Within: time.Minute}, Tries{Key: "other", Within: time.Hour}
		counts := func() (n [2]int) {
			for i, tries := range []Tries{one, other} {
				n[i] = tried(t, d, func(q *db.Q) (Count, error) { return tries.Count(q, hand.Now()) }).N
			}
			return n
		}
		for _, step := range []struct {
			what string
			do   func(q *db.Q) error
			want [2]int
		}{
			{"taking back nothing", one.Undo, [2]int{0, 0}},
			{"one", func(q *db.Q) error { _, err := one.Add(q, hand.Now()); return err }, [2]int{1, 0}},
			{"one more", func(q *db.Q) error { _, err := one.Add(q, hand.Now()); return err }, [2]int{2, 0}},
			{"another", func(q *db.Q) error { _, err := other.Add(q, hand.Now()); return err }, [2]int{2, 1}},
			{"taking one back", one.Undo, [2]int{1, 1}},
			{"a sweep too early", func(q *db.Q) error { return SweepTries(q, hand.Now()) }, [2]int{1, 1}},
			{"a sweep", func(q *db.Q) error { return SweepTries(q, hand.Now().Add(time.Minute)) }, [2]int{0, 1}},
			{"forgetting the other", other.Reset, [2]int{0, 0}},
		} {
			if err := d.Write(t.Context(), step.do); err != nil {
				t.Fatal(err)
			}
			if got := counts(); got != step.want {
				t.Errorf("after %s there are %v, want %v", step.what, got, step.want)
			}
		}
	})
}

func TestTries_AreAllCountedWhenMadeAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hand := newHand()
		guesses := Tries{Key: "guesses", Most: 3, Within: time.Minute}
		var let atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				count := tried(t, d, func(q *db.Q) (Count, error) { return guesses.Add(q, hand.Now()) })
				if count.N <= guesses.Most {
					let.Add(1)
				}
			})
		}
		all.Wait()
		if let.Load() != 3 {
			t.Errorf("%d were among the first 3", let.Load())
		}
	})
}

func TestNetwork_IsAnAddressOrWhatItsOwnerHas(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":      "192.0.2.7/32",
		"2001:db8::1":    "2001:db8::/64",
		"2001:db8:0:1::": "2001:db8:0:1::/64",
	} {
		if got := Network(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
	if got := Network(netip.Addr{}); got == "" {
		t.Error("an unknown address counts as nothing")
	}
}
