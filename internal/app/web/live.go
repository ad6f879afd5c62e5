package web

import (
	"context"
	"net/http"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/route"
)

const (
	// livePace is the least time between two looks of a stream, so that what happens meanwhile comes
	// together. Where looking takes long, it is done less often.
	livePace     = 200 * time.Millisecond
	liveCosts    = 5
	liveIdle     = 15 * time.Second
	liveLifetime = 10 * time.Minute
)

// live tells a page of a build how things go on, with server-sent events: "parts" has elements to put in
// the place of those that are there, "log" what has come to the log that is shown. The id of the last
// "parts" that a page has had says how the page looks, so that one that comes back gets what it missed.
//
// It looks when the bus says that something has changed, also in what the visitor may see, and at no other time. It
// ends when the visitor may not see the build any more, and in any case after a while: the browser comes back.
func (s *Site) live(v *visit) error {
	ctx, stop := context.WithCancel(v.Context())
	defer stop()
	access := s.Directory.Changes(ctx, s.Bus)
	o, err := s.reload(v)
	if err != nil {
		return err
	}
	leave, err := s.followers.enter(v.who())
	if err != nil {
		return err
	}
	defer leave()
	changed, cancel := s.watched.Subscribe(o.ID)
	defer cancel()
	l := &liveStream{site: s, visit: v, on: o}
	if err := l.look(); err != nil {
		return err
	}
	var printed <-chan struct{}
	if l.board.hasLog() {
		var cancel func()
		printed, cancel = s.Bus.Subscribe(joblog.Topic(l.board.open.ID))
		defer cancel()
		l.window = s.Logs.Window(l.board.logOf())
	}
	route.SetEventHeaders(v.w.Header())
	if v.Method == http.MethodHead {
		return nil
	}
	if l.events, err = route.NewEvents(v.w); err != nil {
		return nil // the reader has gone
	}
	defer l.events.End()
	l.run(changed, printed, access)
	return nil
}

// liveStream is one page that is told how things go on.
type liveStream struct {
	site   *Site
	visit  *visit
	on     builds.OnBuild
	events *route.Events

	board  *board
	parts  *parts // as the page has them; nil: that is not known
	now    *parts // as they are
	window *joblog.Window
}

// run tells until the page is gone, the server is about to stop, or something went wrong: then the page
// comes back and begins anew.
func (l *liveStream) run(changed, printed, access <-chan struct{}) {
	if l.visit.seen() == l.now.version() {
		l.parts = l.now
	}
	if l.tell() != nil || l.tellLog() != nil {
		return
	}
	for end := time.After(liveLifetime); ; {
		var tell func() error
		select {
		case <-changed:
			tell = l.tellAgain
		case <-access:
			tell = l.tellAgain
		case <-printed:
			tell = l.tellLog
		case <-time.After(liveIdle):
			tell = l.events.Idle
		case <-end:
			return
		case <-l.site.draining:
			return
		case <-l.visit.Context().Done():
			return
		}
		begun := time.Now()
		if tell() != nil {
			return
		}
		l.rest(max(livePace, liveCosts*time.Since(begun)))
	}
}

// rest lets what happens meanwhile come together.
func (l *liveStream) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.site.draining:
	case <-l.visit.Context().Done():
	}
}

// seen is the version of the page that the visitor has.
func (v *visit) seen() string {
	if id := v.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return v.FormQuery("seen")
}

// reload finds out who the visitor is now, and returns the build if they may see it.
func (s *Site) reload(v *visit) (builds.OnBuild, error) {
	v.session, v.Caller = nil, nil
	if err := v.identify(); err != nil {
		return builds.OnBuild{}, err
	}
	if err := v.enter(); err != nil {
		return builds.OnBuild{}, err
	}
	return s.Builds.LoadOnBuild(v.Request)
}

// tellAgain sends what the visitor may see now and the page does not have yet.
func (l *liveStream) tellAgain() (err error) {
	if l.on, err = l.site.reload(l.visit); err != nil {
		return err
	}
	if err := l.look(); err != nil {
		return err
	}
	return l.tell()
}

// look reads how the build is now.
func (l *liveStream) look() (err error) {
	if l.board, err = l.site.readBoard(l.visit, l.on, trouble{}, l.board); err != nil {
		return err
	}
	l.now, err = l.board.parts()
	return err
}

// tell sends what the page does not have yet.
func (l *liveStream) tell() error {
	changed := l.now.since(l.parts)
	l.parts = l.now
	if len(changed) == 0 {
		return nil
	}
	return l.events.Send("parts", l.now.version(), changed)
}

// A logChange is what has come to a log.
type logChange struct {
	Anew    bool   `json:"anew"`
	Earlier bool   `json:"earlier"`
	Settled string `json:"settled"`
	Screen  string `json:"screen"`
	Size    string `json:"size"` // in words
}

// tellLog sends what has come to the log, if one is shown.
func (l *liveStream) tellLog() error {
	if l.window == nil {
		return nil
	}
	update, err := l.window.Read(l.visit.Context())
	if err != nil {
		return err
	}
	return l.events.Send("log", "", logChange{update.Reset, update.Truncated, update.Settled, update.Screen, size(update.Size)})
}

// Drain has streams end, from now on, so that pages come back to another replica.
func (s *Site) Drain() { close(s.draining) }
