package live

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"stackyard/internal/app/web/pages"
)

// A Source is what a feed reads.
type Source struct {
	// Subscribe returns a channel that holds a token when the state may have changed.
	Subscribe func() (changed <-chan struct{}, cancel func())
	// Read returns the current state.
	Read func(ctx context.Context) (pages.Snapshot, error)
	// Version returns a text that changes with the state and costs less than reading it; nil: there is none.
	Version func(ctx context.Context) (string, error)
	// Log is the log on the page; nil: none.
	Log Log
	// Pace is the minimum time between two reads, so that changes are batched. If reading is slow, it reads less often.
	Pace time.Duration
	// Poll is the maximum time between two reads, for states whose notifications can be lost; 0: there is none.
	Poll time.Duration
}

// A feed is the current state of a page. All viewers of the page with the same permissions in this process share it:
// it is read and rendered once for each change, and every viewer costs only the bytes that it is sent.
//
// A feed exists while it has viewers. One goroutine reads the state when the bus reports a change, and at no other
// time.
type feed struct {
	*Source
	draining chan struct{}

	stop  func()
	ready chan struct{} // closed after the first read
	asked chan struct{} // holds a token when a viewer wants a newer state

	mu      sync.Mutex
	viewers int
	err     error // of the last read; ends the feed
	parts   pages.Snapshot
	version string            // of the source when parts was read
	lines   []json.RawMessage // last updates of the log
	first   int64             // number of the first of lines
	whole   any               // log for new viewers
	next    chan struct{}     // closed at the next change
	from    pages.Snapshot    // the state before, and what changed since
	changed json.RawMessage
}

// A Log is the log on a page.
type Log interface {
	// Subscribe returns a channel that holds a token when something may have been added.
	Subscribe() (printed <-chan struct{}, cancel func())
	// Next returns what was added since the last call as the data of an event; nil: nothing.
	Next(ctx context.Context) (any, error)
	// All returns the data of an event for viewers who have nothing yet, or have missed something.
	All() any
}

// maxStale is how long a viewer waits for a state that is as new as the source.
const maxStale = 2 * time.Second

// maxLogEvents is how many updates of a log a viewer can miss without getting all of it again.
const maxLogEvents = 20

// feeds are the feeds of a process by the page and the permissions of its viewers.
type feeds struct {
	mu   sync.Mutex
	open map[string]*feed
}

// join adds a viewer, who has a version of the page, to the feed with a key, which start starts if there is none. The
// caller calls leave once.
func (h *Hub) join(ctx context.Context, key, seen string, start func() *Source) (f *feed, leave func(), err error) {
	h.feeds.mu.Lock()
	f = h.feeds.open[key]
	if f == nil {
		f = &feed{Source: start(), draining: h.draining, ready: make(chan struct{}), asked: make(chan struct{}, 1), next: make(chan struct{})}
		var running context.Context
		running, f.stop = context.WithCancel(context.Background())
		if h.feeds.open == nil {
			h.feeds.open = make(map[string]*feed)
		}
		h.feeds.open[key] = f
		go f.run(running, func() { h.feeds.remove(key, f) })
	}
	f.viewers++
	h.feeds.mu.Unlock()
	leave = sync.OnceFunc(func() {
		h.feeds.mu.Lock()
		defer h.feeds.mu.Unlock()
		if f.viewers--; f.viewers == 0 {
			f.stop()
			if h.feeds.open[key] == f {
				delete(h.feeds.open, key)
			}
		}
	})
	if err := f.waitFresh(ctx, seen); err != nil {
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

// waitFresh waits until the state is as new as the source: a viewer must not get an older state than the page was
// loaded with. Without a version of the source, it waits for the next read, unless the viewer has the current state.
func (f *feed) waitFresh(ctx context.Context, seen string) error {
	first := false
	select {
	case <-f.ready:
	default:
		first = true
		select {
		case <-f.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	known, before, err := f.version, f.parts, f.err
	f.mu.Unlock()
	if err != nil {
		return err
	}
	var version string
	switch {
	case f.Version != nil:
		if version, err = f.Version(ctx); err != nil {
			return err
		}
	case first || before.Version() == seen:
		return nil
	default:
		select {
		case f.asked <- struct{}{}:
		default:
		}
	}
	for timeout := time.After(maxStale); ; {
		f.mu.Lock()
		now, parts, next, err := f.version, f.parts, f.next, f.err
		f.mu.Unlock()
		if err != nil || f.Version != nil && (now == version || now != known) || f.Version == nil && parts != before {
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

// run reads the state until the last viewer leaves, the server drains, or an error occurs. Viewers then end, and
// their pages reconnect.
func (f *feed) run(ctx context.Context, remove func()) {
	defer f.stop()
	defer remove()
	changed, cancel := f.Subscribe()
	defer cancel()
	var printed <-chan struct{}
	err := f.refresh(ctx)
	if err == nil && f.Log != nil {
		var cancel func()
		printed, cancel = f.Log.Subscribe()
		defer cancel()
		err = f.readLog(ctx)
	}
	if err != nil {
		f.fail(err)
	}
	close(f.ready)
	for err == nil {
		var poll <-chan time.Time
		if f.Poll > 0 {
			poll = time.After(f.Poll)
		}
		write := f.refresh
		select {
		case <-changed:
		case <-f.asked:
		case <-poll:
		case <-printed:
			write = f.readLog
		case <-f.draining:
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
		case <-time.After(max(f.Pace, slowness*time.Since(begun))):
		case <-f.draining:
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

// refresh reads the state.
func (f *feed) refresh(ctx context.Context) error {
	var version string
	if f.Version != nil {
		var err error
		if version, err = f.Version(ctx); err != nil {
			return err
		}
	}
	now, err := f.Read(ctx)
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
	update, err := f.Log.Next(ctx)
	if err != nil || update == nil {
		return err
	}
	text, err := json.Marshal(update)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = f.Log.All()
	f.lines = append(f.lines, text)
	if extra := len(f.lines) - maxLogEvents; extra > 0 {
		f.lines, f.first = slices.Clone(f.lines[extra:]), f.first+int64(extra)
	}
	f.wake()
	return nil
}

// A follower is what a viewer of a feed has received.
type follower struct {
	parts pages.Snapshot // nil: unknown
	line  int64          // number of the next update of the log; -1: nothing was received
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
	if f.Log != nil {
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
	return changed, f.parts.Version(), lines, f.next, nil
}

// diff returns the parts that differ from before, as JSON; nil if none does. Most viewers ask for the same.
func (f *feed) diff(before pages.Snapshot) (json.RawMessage, error) {
	if before != nil && f.from == before {
		return f.changed, nil
	}
	list := f.parts.Since(before)
	if len(list) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(list)
	if before != nil {
		f.from, f.changed = before, text
	}
	return text, err
}
