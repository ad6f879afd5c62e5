package live

import (
	"sync"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
)

// maxStreams limits the open streams of one user, or of one address without a user.
const maxStreams = 100

// A streamLimiter counts open streams by user or address.
type streamLimiter struct {
	mu     sync.Mutex
	counts map[string]int
}

// acquire counts one more stream until release is called, or returns an error at the limit.
func (c *streamLimiter) acquire(key string) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[key] >= maxStreams {
		return nil, &core.Error{Kind: core.RateLimited, Message: "Too many live pages open. Close some and reload.", RetryAfter: 10}
	}
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[key]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.counts[key]--; c.counts[key] == 0 {
			delete(c.counts, key)
		}
	}, nil
}

// limiterKey identifies the visitor for the limit of streams.
func limiterKey(v *pages.Visit) string {
	if v.Session != nil {
		return v.User().ID
	}
	return v.Address.String()
}
