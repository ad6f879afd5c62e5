package testresults

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"stackyard/internal/platform/core"
)

func TestGate_BoundsAllAndEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(3, 2)
		enter := func(key string) func() {
			t.Helper()
			leave, err := g.enter(t.Context(), key, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		refused := func(key string) {
			t.Helper()
			before := time.Now()
			if _, err := g.enter(t.Context(), key, time.Second); core.KindOf(err) != core.Unavailable || time.Since(before) != time.Second {
				t.Errorf("%s: error %v after %s", key, err, time.Since(before))
			}
		}
		first, second := enter("a"), enter("a")
		refused("a")
		third := enter("b")
		refused("b") // all places are taken
		first()
		fourth := enter("b")
		second()
		third()
		fourth()
		if len(g.keys) != 0 || len(g.all) != 0 {
			t.Errorf("%d keys and %d places are left", len(g.keys), len(g.all))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		leave, other := enter("a"), enter("a")
		if _, err := g.enter(gone, "a", time.Hour); err == nil {
			t.Error("a caller that has gone enters")
		}
		leave()
		other()
	})
}
