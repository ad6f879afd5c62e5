package buildpages

import (
	"context"
	"net/http"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/route"
)

const (
	// livePace is the minimum time between two updates of a stream, so that changes are batched. If reading is
	// slow, updates are less frequent.
	livePace     = 200 * time.Millisecond
	liveCosts    = 5
	liveIdle     = 15 * time.Second
	liveLifetime = 10 * time.Minute
)

// live streams changes of a build to its page as server-sent events: "parts" has elements that replace those of
// the page, "log" what was added to the shown log. The id of the last "parts" is the version of the page, so
// that a page that reconnects gets what it missed.
//
// It reads when the bus reports a change, also of the visitor's access, and at no other time. It ends when the
// visitor can no longer see the build, and in any case after a while: the browser reconnects.
func (s *Site) live(v *pages.Visit) error {
	ctx, stop := context.WithCancel(v.Context())
	defer stop()
	access := s.Directory.Changes(ctx, s.Bus)
	o, err := s.reload(v)
	if err != nil {
		return err
	}
	release, err := s.followers.acquire(limiterKey(v))
	if err != nil {
		return err
	}
	defer release()
	changed, cancel := s.watched.Subscribe(o.ID)
	defer cancel()
	l := &liveStream{site: s, visit: v, on: o}
	if err := l.read(); err != nil {
		return err
	}
	var printed <-chan struct{}
	if l.board.hasLog() {
		var cancel func()
		printed, cancel = s.Bus.Subscribe(joblog.Topic(l.board.open.ID))
		defer cancel()
		l.window = s.Logs.Window(l.board.logOf())
	}
	route.SetEventHeaders(v.W.Header())
	if v.Method == http.MethodHead {
		return nil
	}
	if l.events, err = route.NewEvents(v.W); err != nil {
		return nil // the reader has disconnected
	}
	defer l.events.End()
	l.run(changed, printed, access)
	return nil
}

// liveStream is the stream of one page.
type liveStream struct {
	site   *Site
	visit  *pages.Visit
	on     builds.OnBuild
	events *route.Events

	board  *board
	parts  *parts // state of the page; nil: unknown
	now    *parts // current state of the build
	window *joblog.Window
}

// run sends updates until the page is closed, the server drains, or an error occurs: the page then reconnects.
func (l *liveStream) run(changed, printed, access <-chan struct{}) {
	if seen(l.visit) == l.now.version() {
		l.parts = l.now
	}
	if l.send() != nil || l.sendLog() != nil {
		return
	}
	for end := time.After(liveLifetime); ; {
		var write func() error
		select {
		case <-changed:
			write = l.refresh
		case <-access:
			write = l.refresh
		case <-printed:
			write = l.sendLog
		case <-time.After(liveIdle):
			write = l.events.Idle
		case <-end:
			return
		case <-l.site.draining:
			return
		case <-l.visit.Context().Done():
			return
		}
		begun := time.Now()
		if write() != nil {
			return
		}
		l.rest(max(livePace, liveCosts*time.Since(begun)))
	}
}

// rest waits, so that changes are batched.
func (l *liveStream) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.site.draining:
	case <-l.visit.Context().Done():
	}
}

// seen returns the version of the page that the visitor has.
func seen(v *pages.Visit) string {
	if id := v.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return v.FormQuery("seen")
}

// reload identifies the visitor again, and returns the build if the visitor can see it.
func (s *Site) reload(v *pages.Visit) (builds.OnBuild, error) {
	v.Session, v.Caller = nil, nil
	if err := v.Identify(); err != nil {
		return builds.OnBuild{}, err
	}
	if err := v.Enter(); err != nil {
		return builds.OnBuild{}, err
	}
	return s.Builds.LoadOnBuild(v.Request)
}

// refresh checks access again, and sends what the page does not have yet.
func (l *liveStream) refresh() (err error) {
	if l.on, err = l.site.reload(l.visit); err != nil {
		return err
	}
	if err := l.read(); err != nil {
		return err
	}
	return l.send()
}

// read reads the current state of the build.
func (l *liveStream) read() (err error) {
	if l.board, err = l.site.readBoard(l.visit, l.on, actionError{}, l.board); err != nil {
		return err
	}
	l.now, err = l.board.parts()
	return err
}

// send sends what the page does not have yet.
func (l *liveStream) send() error {
	changed := l.now.since(l.parts)
	l.parts = l.now
	if len(changed) == 0 {
		return nil
	}
	return l.events.Send("parts", l.now.version(), changed)
}

// A logChange is the data of an event about the log.
type logChange struct {
	Reset     bool   `json:"reset"`
	Truncated bool   `json:"truncated"`
	Settled   string `json:"settled"`
	Screen    string `json:"screen"`
	Size      string `json:"size"` // formatted
}

// sendLog sends what was added to the log, if one is shown.
func (l *liveStream) sendLog() error {
	if l.window == nil {
		return nil
	}
	update, err := l.window.Read(l.visit.Context())
	if err != nil {
		return err
	}
	return l.events.Send("log", "", logChange{update.Reset, update.Truncated, update.Settled, update.Screen, pages.Size(update.Size)})
}

// Drain ends all streams, so that pages reconnect to another replica.
func (s *Site) Drain() { close(s.draining) }
