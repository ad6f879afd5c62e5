package limits

import (
	"sync"
	"time"
)

// counter is what this process knows about a key.
type counter struct {
	mu      sync.Mutex
	removed bool // removed from the limiter's map

	recent times     // of the requests that this process granted
	full   fullUntil // of a small limit
	share  share     // of a large limit
}

// take counts a request that this process decides alone.
func (c *counter) take(now time.Time, limit int) Usage {
	if c.within(now) >= limit {
		return refused(limit)
	}
	c.recent.push(now.UnixMicro())
	return granted(limit, c.recent.n)
}

// within returns how many requests this process granted within the window.
func (c *counter) within(now time.Time) int {
	c.recent.dropUntil(now.Add(-window).UnixMicro())
	return c.recent.n
}

// idle reports whether the counter equals a new one.
func (c *counter) idle(now time.Time) bool {
	return c.within(now) == 0 && !now.Before(c.full.until) && !now.Before(c.share.until)
}

// times are the times of requests, oldest first, in a ring that grows up to the limit.
type times struct {
	ring    []int64
	head, n int
}

func (t *times) dropUntil(last int64) {
	for t.n > 0 && t.ring[t.head] <= last {
		t.head = (t.head + 1) % len(t.ring)
		t.n--
	}
}

func (t *times) push(at int64) {
	if t.n == len(t.ring) {
		grown := make([]int64, max(8, 2*len(t.ring)))
		for i := range t.n {
			grown[i] = t.ring[(t.head+i)%len(t.ring)]
		}
		t.ring, t.head = grown, 0
	}
	t.ring[(t.head+t.n)%len(t.ring)] = at
	t.n++
}
