package db_test

import (
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/core/coretest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func skewed(d time.Duration) core.Clock {
	return func() time.Time { return core.SystemClock().Add(d) }
}

func TestClock_FollowsTheDatabasesClock(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		c, err := d.NewClock(t.Context(), skewed(skew), nil)
		if err != nil {
			t.Fatal(err)
		}
		if off := c.Now().Sub(core.SystemClock()); off.Abs() > time.Minute {
			t.Errorf("with a local clock that is %s off, it is %s off", skew, off)
		}
	}
}

func TestClock_IsTheLocalOneOnSQLite(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	before := d.Statements()
	c, err := d.NewClock(t.Context(), skewed(-time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	if off := c.Now().Sub(core.SystemClock()); off > -time.Minute || d.Statements() != before {
		t.Errorf("%s off after %d statements", off, d.Statements()-before)
	}
}

func TestClock_AsksNothingButWhenItMeasures(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	before := d.Statements()
	c, err := d.NewClock(t.Context(), core.SystemClock, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		c.Now()
	}
	if n := d.Statements() - before; n != 1 {
		t.Errorf("%d statements", n)
	}
}

func TestClock_ChangesItsCorrectionOnlyWhenThatWasWrong(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	start := time.UnixMicro(1_700_000_000_000_000).UTC()
	local, remote := coretest.NewClock(start), coretest.NewClock(start.Add(time.Hour))
	slow := func() time.Time { // a round trip takes two seconds
		local.Advance(time.Second)
		remote.Advance(time.Second)
		at := remote.Now()
		local.Advance(time.Second)
		remote.Advance(time.Second)
		return at
	}
	c, err := d.NewClock(t.Context(), local.Now, slow)
	if err != nil {
		t.Fatal(err)
	}
	measure := func(want time.Duration) {
		t.Helper()
		if err := d.Read(t.Context(), c.Measure); err != nil {
			t.Fatal(err)
		}
		if got := c.Now().Sub(local.Now()); got != want {
			t.Errorf("corrects by %s, want %s", got, want)
		}
	}
	measure(time.Hour)
	remote.Advance(900 * time.Millisecond) // the measurement cannot distinguish this from the network delay
	measure(time.Hour)
	local.Advance(time.Hour)
	measure(900 * time.Millisecond)
}
