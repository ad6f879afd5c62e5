package web

import (
	"sync"

	"stackyard/internal/platform/core"
)

// maxStreams is how many pages one person, or one address that nobody has signed in from, can have followed
// at a time.
const maxStreams = 100

// A crowd counts who follows pages.
type crowd struct {
	mu     sync.Mutex
	counts map[string]int
}

// enter counts one more, until leave is called, or refuses.
func (c *crowd) enter(who string) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[who] >= maxStreams {
		return nil, &core.Error{Kind: core.RateLimited, Message: "Too many live build pages open. Close some and reload.", RetryAfter: 10}
	}
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[who]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.counts[who]--; c.counts[who] == 0 {
			delete(c.counts, who)
		}
	}, nil
}

// who the visitor is, to be counted.
func (v *visit) who() string {
	if v.session != nil {
		return v.user().ID
	}
	return v.Address.String()
}
