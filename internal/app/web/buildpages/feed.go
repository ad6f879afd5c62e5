package buildpages

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A feed is the current state of a page. All viewers of the page with the same permissions in this process share it:
// it is read and rendered once for each change, and every viewer costs only the bytes that it is sent.
//
// A feed exists while it has viewers. One goroutine reads the state when the bus reports a change, and at no other
// time.
type feed struct {
	site    *Site
	buildID string
	// read returns the current state. log is the log on the page; nil: none.
	read func(ctx context.Context) (*parts, error)
	log  feedLog

	stop  func()
	ready chan struct{} // closed after the first read

	mu      sync.Mutex
	viewers int
	err     error // of the last read; ends the feed
	parts   *parts
	version string            // of the build when parts was read
	lines   []json.RawMessage // last updates of the log
	first   int64             // number of the first of lines
	whole   any               // log for new viewers
	next    chan struct{}     // closed at the next change
	from    *parts            // the state before, and what changed since
	changed json.RawMessage
}

// A feedLog is the log on a page.
type feedLog interface {
	topic() string
	// next returns what was added since the last call as the data of an event; nil: nothing.
	next(ctx context.Context) (any, error)
	// all returns the data of an event for viewers who have nothing yet, or have missed something.
	all() any
}

// maxStale is how long a viewer waits for a state that is as new as the build.
const maxStale = 2 * time.Second

// maxLogEvents is how many updates of a log a viewer can miss without getting all of it again.
const maxLogEvents = 20

// feeds are the feeds of a process by the page and the permissions of its viewers.
type feeds struct {
	mu   sync.Mutex
	open map[string]*feed
}

// permissionsOf returns a text that is the same for visitors who see the same page.
func permissionsOf(v *pages.Visit, o builds.OnBuild) string {
	if v.Session == nil || v.Member == nil {
		return fmt.Sprint("visitor ", v.Session != nil, o.Pipeline.Visited())
	}
	var teams []string
	for _, t := range v.Member.Teams {
		teams = append(teams, t.TeamID)
	}
	slices.Sort(teams)
	return fmt.Sprint("member ", o.Pipeline.Visited(), o.Permits(v.Request, identity.BuildPipeline), v.Member.Can(identity.ManageHostedAgents, v.Org), teams)
}

// join adds a viewer to the feed with a key, which open starts if there is none. The caller calls leave once.
func (s *Site) join(ctx context.Context, key string, start func() *feed) (f *feed, leave func(), err error) {
	s.feeds.mu.Lock()
	f = s.feeds.open[key]
	if f == nil {
		f = start()
		f.site, f.ready, f.next = s, make(chan struct{}), make(chan struct{})
		var running context.Context
		running, f.stop = context.WithCancel(context.Background())
		if s.feeds.open == nil {
			s.feeds.open = make(map[string]*feed)
		}
		s.feeds.open[key] = f
		go f.run(running, func() { s.feeds.remove(key, f) })
	}
	f.viewers++
	s.feeds.mu.Unlock()
	leave = sync.OnceFunc(func() {
		s.feeds.mu.Lock()
		defer s.feeds.mu.Unlock()
		if f.viewers--; f.viewers == 0 {
			f.stop()
			if s.feeds.open[key] == f {
				delete(s.feeds.open, key)
			}
		}
	})
	if err := f.waitFresh(ctx); err != nil {
		leave()
		return nil, nil, err
	}
	return f, leave, nil
}

func (s *feeds) remove(key string, f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] == f {
		delete(s.open, key)
	}
}

// waitFresh waits until the state is as new as the build.
func (f *feed) waitFresh(ctx context.Context) error {
	select {
	case <-f.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	known := f.version
	f.mu.Unlock()
	version, err := f.site.versionOf(ctx, f.buildID)
	if err != nil {
		return err
	}
	for timeout := time.After(maxStale); ; {
		f.mu.Lock()
		now, next, err := f.version, f.next, f.err
		f.mu.Unlock()
		if err != nil || now == version || now != known {
			return err
		}
		select {
		case <-next:
		case <-timeout: // the notification was lost; the next poll repairs it
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// versionOf returns a text that changes when a build does.
func (s *Site) versionOf(ctx context.Context, buildID string) (version string, err error) {
	err = s.DB.Read(ctx, func(q *db.Q) error {
		versions, err := builds.Versions(q, []string{buildID})
		version = strings.Join(slices.Collect(maps.Values(versions)), "")
		return err
	})
	return version, err
}

// run reads the state until the last viewer leaves, the server drains, or an error occurs. Viewers then end, and
// their pages reconnect.
func (f *feed) run(ctx context.Context, remove func()) {
	defer f.stop()
	defer remove()
	changed, cancel := f.site.watched.Subscribe(f.buildID)
	defer cancel()
	var printed <-chan struct{}
	err := f.refresh(ctx)
	if err == nil && f.log != nil {
		var cancel func()
		printed, cancel = f.site.Bus.Subscribe(f.log.topic())
		defer cancel()
		err = f.readLog(ctx)
	}
	if err != nil {
		f.fail(err)
	}
	close(f.ready)
	for err == nil {
		var write func(context.Context) error
		select {
		case <-changed:
			write = f.refresh
		case <-printed:
			write = f.readLog
		case <-f.site.draining:
			f.fail(errDraining)
			return
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		if err = write(ctx); err != nil {
			f.fail(err)
			return
		}
		select {
		case <-time.After(max(livePace, liveCosts*time.Since(begun))):
		case <-f.site.draining:
		case <-ctx.Done():
		}
	}
}

// fail ends the feed for its viewers.
func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	f.wake()
}

// wake wakes all viewers. The caller holds mu.
func (f *feed) wake() {
	close(f.next)
	f.next = make(chan struct{})
}

// refresh reads the state of the build.
func (f *feed) refresh(ctx context.Context) error {
	version, err := f.site.versionOf(ctx, f.buildID)
	if err != nil {
		return err
	}
	now, err := f.read(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts, f.version, f.from, f.changed = now, version, nil, nil
	f.wake()
	return nil
}

// readLog reads what was added to the log.
func (f *feed) readLog(ctx context.Context) error {
	update, err := f.log.next(ctx)
	if err != nil || update == nil {
		return err
	}
	text, err := json.Marshal(update)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = f.log.all()
	f.lines = append(f.lines, text)
	if extra := len(f.lines) - maxLogEvents; extra > 0 {
		f.lines, f.first = slices.Clone(f.lines[extra:]), f.first+int64(extra)
	}
	f.wake()
	return nil
}

// A follower is what a viewer of a feed has received.
type follower struct {
	parts *parts // nil: unknown
	line  int64  // number of the next update of the log; -1: nothing was received
}

// since returns what a follower has not received: the changed parts, updates of the log, and a channel that is closed
// when there is more.
func (f *feed) since(l *follower) (changed json.RawMessage, version string, lines []json.RawMessage, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, "", nil, nil, f.err
	}
	if l.parts != f.parts {
		if changed, err = f.diff(l.parts); err != nil {
			return nil, "", nil, nil, err
		}
		l.parts = f.parts
	}
	if f.log != nil {
		if l.line < f.first {
			all, err := json.Marshal(f.whole)
			if err != nil {
				return nil, "", nil, nil, err
			}
			lines = []json.RawMessage{all}
		} else {
			lines = slices.Clone(f.lines[l.line-f.first:])
		}
		l.line = f.first + int64(len(f.lines))
	}
	return changed, f.parts.version(), lines, f.next, nil
}

// diff returns the parts that differ from before, as JSON; nil if none does. Most viewers ask for the same.
func (f *feed) diff(before *parts) (json.RawMessage, error) {
	if before != nil && f.from == before {
		return f.changed, nil
	}
	list := f.parts.since(before)
	if len(list) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(list)
	if before != nil {
		f.from, f.changed = before, text
	}
	return text, err
}
