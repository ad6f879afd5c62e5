package db

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"stackyard/internal/platform/core"
)

// A Clock returns the database's time without a query: the time of this process, corrected by the difference
// that was last measured. Processes that share a database agree on it to within a round trip, however wrong the
// clocks of their machines are.
type Clock struct {
	local  core.Clock
	remote core.Clock // replaces the database's clock in tests; nil otherwise
	shared bool
	log    *slog.Logger
	offset atomic.Int64 // database clock minus local clock, in nanoseconds
}

// warnOffset is the clock difference from which on it is logged.
const warnOffset = time.Second

// NewClock returns a clock that has been measured once. On SQLite the database's clock is the local one. remote
// replaces the database's clock in tests; it is nil otherwise.
func (d *DB) NewClock(ctx context.Context, local, remote core.Clock) (*Clock, error) {
	c := &Clock{local: local, remote: remote, shared: d.Shared() || remote != nil, log: d.log}
	if err := d.Read(ctx, c.Measure); err != nil {
		return nil, err
	}
	d.clock.Store(c)
	return c, nil
}

// Now returns the time of the database's clock.
func (c *Clock) Now() time.Time { return c.local().Add(time.Duration(c.offset.Load())) }

// Offset returns how far the database's clock is ahead of this process's.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Measure compares the two clocks, with one statement at most. It corrects the offset only when that must be
// wrong, so that time does not jump with each measurement.
func (c *Clock) Measure(q *Q) error {
	if !c.shared {
		return nil
	}
	before := c.local()
	at, err := c.databaseTime(q)
	after := c.local()
	if err != nil || after.Before(before) { // the local clock was set back meanwhile
		return err
	}
	offset := time.Duration(c.offset.Load())
	if least, most := at.Sub(after), at.Sub(before); offset < least || offset > most {
		corrected := least + (most-least)/2
		c.offset.Store(int64(corrected))
		if (corrected - offset).Abs() >= warnOffset {
			c.log.Warn("clock differs from the database's", "database_ahead", corrected)
		}
	}
	return nil
}

// databaseTime returns the time of the database.
func (c *Clock) databaseTime(q *Q) (at time.Time, err error) {
	if c.remote != nil {
		return c.remote(), nil
	}
	err = q.QueryRow(`SELECT ` + q.Clock()).Scan(ToTime(&at))
	return at, err
}
