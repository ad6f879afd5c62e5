// Package live keeps pages up to date with server-sent events: "parts" has elements that replace those of the page,
// "log" what was added to its log. The id of the last "parts" is the version of the page, so that a page that reconnects
// gets what it missed. assets/live.js of package pages replaces the elements.
//
// All viewers of a page with the same permissions in a process share a feed (feed.go), which reads and renders once for
// each change; a viewer costs the bytes that it is sent. A page is live with one line in its routes (page.go).
package live

import (
	"context"
	"errors"
	"net/http"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/route"
)

const (
	// slowness is how much longer a feed pauses than a read took.
	slowness = 5
	idle     = 15 * time.Second
	lifetime = 10 * time.Minute
)

// errDraining ends feeds because the server is shutting down.
var errDraining = errors.New("the server is draining")

// A Hub has the feeds and streams of a process.
type Hub struct {
	*pages.Site
	Bus       *bus.Bus
	followers streamLimiter
	feeds     feeds
	draining  chan struct{} // closed when the server drains
}

// New returns a Hub.
func New(site *pages.Site, b *bus.Bus) *Hub {
	return &Hub{Site: site, Bus: b, draining: make(chan struct{})}
}

// A Choice selects the feed of a visitor: its key, which is the same for visitors who see the same, and how to start it.
type Choice func(v *pages.Visit) (key string, start func() *Source, err error)

// Detached returns a copy of a visit that a feed can use after the visit has ended.
func Detached(v *pages.Visit) *pages.Visit {
	request := *v.Request
	return &pages.Visit{Request: &request, Site: v.Site, Session: v.Session}
}

// Follow sends a feed to a page. choose selects it for the visitor as he is now, and again when permissions may have
// changed. The stream ends when the visitor can no longer see the page, and in any case after a while: the browser
// reconnects.
func (h *Hub) Follow(v *pages.Visit, choose Choice) error {
	ctx, stop := context.WithCancel(v.Context())
	defer stop()
	access := h.Directory.Changes(ctx, h.Bus)
	if err := reload(v); err != nil {
		return err
	}
	key, start, err := choose(v)
	if err != nil {
		return err
	}
	release, err := h.followers.acquire(limiterKey(v))
	if err != nil {
		return err
	}
	defer release()
	f, leave, err := h.join(ctx, key, seen(v), start)
	if errors.Is(err, errDraining) {
		return nil
	}
	if err != nil {
		return err
	}
	l := &stream{hub: h, visit: v, choose: choose, key: key, feed: f, leave: leave}
	defer func() { l.leave() }()
	route.SetEventHeaders(v.W.Header())
	if v.Method == http.MethodHead {
		return nil
	}
	if l.events, err = route.NewEvents(v.W); err != nil {
		return nil // the reader has disconnected
	}
	defer l.events.End()
	l.run(access)
	return nil
}

// stream is the stream of one page.
type stream struct {
	hub    *Hub
	visit  *pages.Visit
	choose Choice
	events *route.Events

	key   string
	feed  *feed
	leave func()
	follower
}

// run sends updates until the page is closed, the server drains, or an error occurs: the page then reconnects.
func (l *stream) run(access <-chan struct{}) {
	l.follower = follower{line: -1}
	if now := l.feed.current(); seen(l.visit) == now.Version() {
		l.parts = now
	}
	for end := time.After(lifetime); ; {
		changed, version, lines, more, err := l.feed.since(&l.follower)
		if err != nil {
			return
		}
		if changed != nil && l.events.Send("parts", version, changed) != nil {
			return
		}
		for _, line := range lines {
			if l.events.Send("log", "", line) != nil {
				return
			}
		}
		select {
		case <-more:
		case <-access:
			if l.checkAccess() != nil {
				return
			}
		case <-time.After(idle):
			if l.events.Idle() != nil {
				return
			}
		case <-end:
			return
		case <-l.hub.draining:
			return
		case <-l.visit.Context().Done():
			return
		}
	}
}

// current returns the state of the feed.
func (f *feed) current() pages.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parts
}

// checkAccess returns an error if the visitor can no longer see the page. If permissions have changed, it goes on
// with the page as the visitor sees it now.
func (l *stream) checkAccess() error {
	if err := reload(l.visit); err != nil {
		return err
	}
	key, start, err := l.choose(l.visit)
	if err != nil || key == l.key {
		return err
	}
	f, leave, err := l.hub.join(l.visit.Context(), key, "", start)
	if err != nil {
		return err
	}
	l.leave()
	l.key, l.feed, l.leave, l.line = key, f, leave, -1
	return nil
}

// seen returns the version of the page that the visitor has.
func seen(v *pages.Visit) string {
	if id := v.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return v.FormQuery("seen")
}

// reload identifies the visitor again and loads the organization.
func reload(v *pages.Visit) error {
	v.Session, v.Caller = nil, nil
	if err := v.Identify(); err != nil {
		return err
	}
	if v.PathValue("org") == "" { // a page of the visitor
		return nil
	}
	return v.Enter()
}

// Drain ends all streams, so that pages reconnect to another replica.
func (h *Hub) Drain() { close(h.draining) }
