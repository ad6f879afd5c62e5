package buildpages

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

const (
	// livePace is the minimum time between two reads of a feed, so that changes are batched. If reading is slow, it
	// reads less often.
	livePace     = 200 * time.Millisecond
	liveCosts    = 5
	liveIdle     = 15 * time.Second
	liveLifetime = 10 * time.Minute
)

// errDraining ends feeds because the server is shutting down.
var errDraining = errors.New("the server is draining")

// live streams changes of a build to its page as server-sent events: "parts" has elements that replace those of
// the page, "log" what was added to the shown log. The id of the last "parts" is the version of the page, so
// that a page that reconnects gets what it missed.
//
// What it sends comes from a feed. The visitor's access is checked again when permissions may have changed. The
// stream ends when the visitor can no longer see the build, and in any case after a while: the browser reconnects.
func (s *Site) live(v *pages.Visit) error {
	return s.follow(v, func(v *pages.Visit) (string, func() *feed, error) {
		o, err := s.Builds.LoadOnBuild(v.Request)
		if err != nil {
			return "", nil, err
		}
		chosen := selectionOf(v)
		key := strings.Join([]string{"build", o.ID, chosen.query().Encode(), permissionsOf(v, o)}, "\n")
		return key, func() *feed { return s.buildFeed(v, o, chosen) }, nil
	})
}

// buildFeed returns the feed of a build's page.
func (s *Site) buildFeed(v *pages.Visit, o builds.OnBuild, chosen selection) *feed {
	f := &feed{buildID: o.ID}
	reader := detached(v)
	var last *board
	f.read = func(ctx context.Context) (*parts, error) {
		reader.Request.Request = reader.Request.Request.WithContext(ctx)
		o, err := s.Builds.LoadOnBuild(reader.Request)
		if err != nil {
			return nil, err
		}
		if last, err = s.readBoard(reader, o, chosen, actionError{}, last); err != nil {
			return nil, err
		}
		return last.parts()
	}
	if job, ok := s.scriptJob(v.Context(), o, chosen.Job); ok {
		f.log = &windowLog{window: s.Logs.Window(job), job: job}
	}
	return f
}

// scriptJob returns the job of a build with an id, if it has a log.
func (s *Site) scriptJob(ctx context.Context, o builds.OnBuild, id string) (job joblog.Job, ok bool) {
	if _, valid := core.ParseID(id); !valid {
		return job, false
	}
	err := s.DB.Read(ctx, func(q *db.Q) error {
		j, err := builds.JobByID(q, o.OrganizationID, id)
		ok = err == nil && j.BuildID == o.ID && j.Type == flow.Script
		return err
	})
	return joblog.Job{OrganizationID: o.OrganizationID, PipelineID: o.PipelineID, BuildID: o.ID, ID: id}, ok && err == nil
}

// detached returns a copy of a visit that a feed can use after the visit has ended.
func detached(v *pages.Visit) *pages.Visit {
	request := *v.Request
	return &pages.Visit{Request: &request, Site: v.Site, Session: v.Session}
}

// follow sends a feed to a page. choose returns the key of the feed and how to start it, for the visitor as he is
// now.
func (s *Site) follow(v *pages.Visit, choose func(v *pages.Visit) (string, func() *feed, error)) error {
	ctx, stop := context.WithCancel(v.Context())
	defer stop()
	access := s.Directory.Changes(ctx, s.Bus)
	if err := s.reload(v); err != nil {
		return err
	}
	key, start, err := choose(v)
	if err != nil {
		return err
	}
	release, err := s.followers.acquire(limiterKey(v))
	if err != nil {
		return err
	}
	defer release()
	f, leave, err := s.join(ctx, key, start)
	if errors.Is(err, errDraining) {
		return nil
	}
	if err != nil {
		return err
	}
	l := &liveStream{site: s, visit: v, choose: choose, key: key, feed: f, leave: leave}
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

// liveStream is the stream of one page.
type liveStream struct {
	site   *Site
	visit  *pages.Visit
	choose func(v *pages.Visit) (string, func() *feed, error)
	events *route.Events

	key   string
	feed  *feed
	leave func()
	follower
}

// run sends updates until the page is closed, the server drains, or an error occurs: the page then reconnects.
func (l *liveStream) run(access <-chan struct{}) {
	l.follower = follower{line: -1}
	if now := l.feed.current(); seen(l.visit) == now.version() {
		l.parts = now
	}
	for end := time.After(liveLifetime); ; {
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
		case <-time.After(liveIdle):
			if l.events.Idle() != nil {
				return
			}
		case <-end:
			return
		case <-l.site.draining:
			return
		case <-l.visit.Context().Done():
			return
		}
	}
}

// current returns the state of the feed.
func (f *feed) current() *parts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parts
}

// checkAccess returns an error if the visitor can no longer see the page. If permissions have changed, it goes on
// with the page as the visitor sees it now.
func (l *liveStream) checkAccess() error {
	if err := l.site.reload(l.visit); err != nil {
		return err
	}
	key, start, err := l.choose(l.visit)
	if err != nil || key == l.key {
		return err
	}
	f, leave, err := l.site.join(l.visit.Context(), key, start)
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
func (s *Site) reload(v *pages.Visit) error {
	v.Session, v.Caller = nil, nil
	if err := v.Identify(); err != nil {
		return err
	}
	return v.Enter()
}

// A logChange is the data of an event about the end of a log.
type logChange struct {
	Reset     bool   `json:"reset"`
	Truncated bool   `json:"truncated"`
	Settled   string `json:"settled"`
	Screen    string `json:"screen"`
	Size      string `json:"size"` // formatted
}

// windowLog is the end of a log on the page of a build.
type windowLog struct {
	window *joblog.Window
	job    joblog.Job
	now    logChange // with all settled lines
}

// maxWindow limits what a windowLog keeps for new viewers, in bytes.
const maxWindow = 1 << 20

func (w *windowLog) topic() string { return joblog.Topic(w.job.ID) }

func (w *windowLog) next(ctx context.Context) (any, error) {
	update, err := w.window.Read(ctx)
	if err != nil {
		return nil, err
	}
	change := logChange{update.Reset, update.Truncated, update.Settled, update.Screen, pages.Size(update.Size)}
	before := w.now.Settled
	if change.Reset {
		before = ""
	}
	w.now = change
	w.now.Reset, w.now.Settled = true, before+change.Settled
	if extra := len(w.now.Settled) - maxWindow; extra > 0 {
		cut := strings.Index(w.now.Settled[extra:], `<span class="line`)
		w.now.Settled, w.now.Truncated = w.now.Settled[extra+max(cut, 0):], true
	}
	return change, nil
}

func (w *windowLog) all() any { return w.now }

// Drain ends all streams, so that pages reconnect to another replica.
func (s *Site) Drain() { close(s.draining) }
