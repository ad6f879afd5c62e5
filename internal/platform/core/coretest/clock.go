// Package coretest has test helpers for package core.
package coretest

import (
	"sync"
	"time"
)

// A Clock is a time that only tests change.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock with a fixed time.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
