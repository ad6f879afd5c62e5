package testresults

import (
	"context"
	"sync"
	"time"

	"stackyard/internal/platform/core"
)

// The bounds of uploads that are read and saved at the same time. An upload is held in memory while it is parsed.
const (
	uploadsAtOnce = 32
	uploadsOfOne  = 8 // of one organization
	// uploadPatience is how long an upload waits for others.
	uploadPatience = 20 * time.Second
)

// A gate bounds how many callers of all keys, and of each key, are inside at the same time.
type gate struct {
	all chan struct{}
	one int

	mu   sync.Mutex
	keys map[string]*keyGate
}

type keyGate struct {
	slots chan struct{}
	users int // inside or waiting
}

func newGate(all, one int) *gate {
	return &gate{all: make(chan struct{}, all), one: one, keys: make(map[string]*keyGate)}
}

// enter waits for a place and returns the function that leaves it, or an Unavailable error after some time.
func (g *gate) enter(ctx context.Context, key string, patience time.Duration) (leave func(), err error) {
	k := g.use(key)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, slots := range []chan struct{}{k.slots, g.all} {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			if slots == g.all {
				<-k.slots
			}
			g.unuse(key)
			return nil, &core.Error{Kind: core.Unavailable, Message: "Too many uploads are being processed; try again later", RetryAfter: 5}
		}
	}
	return func() {
		<-g.all
		<-k.slots
		g.unuse(key)
	}, nil
}

func (g *gate) use(key string) *keyGate {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	if k == nil {
		k = &keyGate{slots: make(chan struct{}, g.one)}
		g.keys[key] = k
	}
	k.users++
	return k
}

func (g *gate) unuse(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	if k.users--; k.users == 0 {
		delete(g.keys, key)
	}
}
