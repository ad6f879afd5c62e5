package db

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"stackyard/internal/platform/core"
)

// A Clock tells the database's time without asking the database: it is this process's clock, corrected by the
// difference between the two when that was last measured. Processes that share a database agree on it, to
// within the time of a round trip, however wrong the clocks of their machines are.
type Clock struct {
	local  core.Clock
	remote core.Clock // stands in for the database's own, in tests; nil otherwise
	shared bool
	log    *slog.Logger
	ahead  atomic.Int64 // how much the database's clock is ahead of the local one, in nanoseconds
}

// noticeable is the difference between two clocks that operators should know of.
const noticeable = time.Second

// NewClock returns a clock that has been measured once. A SQLite database has the clock of its one machine, so
// there it is the local one. remote stands in for the database's own clock in tests that own the time; nil
// otherwise.
func (d *DB) NewClock(ctx context.Context, local, remote core.Clock) (*Clock, error) {
	c := &Clock{local: local, remote: remote, shared: d.Shared() || remote != nil, log: d.log}
	return c, d.Read(ctx, c.Measure)
}

// Now is the time of the database's clock.
func (c *Clock) Now() time.Time { return c.local().Add(time.Duration(c.ahead.Load())) }

// Measure compares the two clocks, with one statement at most. The correction changes only when it must have
// been wrong, so that time does not jump with each measurement.
func (c *Clock) Measure(q *Q) error {
	if !c.shared {
		return nil
	}
	asked := c.local()
	at, err := c.ask(q)
	answered := c.local()
	if err != nil || answered.Before(asked) { // the local clock was set back meanwhile
		return err
	}
	ahead := time.Duration(c.ahead.Load())
	if least, most := at.Sub(answered), at.Sub(asked); ahead < least || ahead > most {
		corrected := least + (most-least)/2
		c.ahead.Store(int64(corrected))
		if (corrected - ahead).Abs() >= noticeable {
			c.log.Warn("clock differs from the database's", "database_ahead", corrected)
		}
	}
	return nil
}

// ask returns the time of the database.
func (c *Clock) ask(q *Q) (at time.Time, err error) {
	if c.remote != nil {
		return c.remote(), nil
	}
	err = q.QueryRow(`SELECT ` + q.Clock()).Scan(ToTime(&at))
	return at, err
}
