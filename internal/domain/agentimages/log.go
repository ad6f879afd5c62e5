package agentimages

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"stackyard/internal/platform/db"
)

// Limits of build logs.
const (
	maxLog = 4 << 20 // bytes; the rest is not stored
	// flushEvery and flushSize are when a part of the log is stored.
	flushEvery = time.Second
	flushSize  = 64 << 10
	tailSize   = 4000
)

// logTopic is the bus topic of changes to the log or the state of a build.
func logTopic(buildID string) string { return "agent-image-build:" + buildID }

// A logWriter stores the log of a build in parts.
type logWriter struct {
	service *Service
	buildID string

	mu      sync.Mutex
	buffer  []byte
	tail    []byte
	written int
	timer   *time.Timer

	store sync.Mutex // one part at a time
}

func (s *Service) newLog(buildID string) *logWriter { return &logWriter{service: s, buildID: buildID} }

// Write never fails: a build does not depend on its log.
func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p[max(0, len(p)-tailSize):]...)
	l.tail = append(l.tail[:0], l.tail[max(0, len(l.tail)-tailSize):]...)
	n := len(p)
	if l.written >= maxLog {
		return n, nil
	}
	if l.written+n >= maxLog {
		p = append(p[:maxLog-l.written:maxLog-l.written], "\n[The log is too long; the rest is not shown.]\n"...)
	}
	l.written += n
	l.buffer = append(l.buffer, p...)
	switch {
	case len(l.buffer) >= flushSize:
		go l.flush(context.Background())
	case l.timer == nil:
		l.timer = time.AfterFunc(flushEvery, func() { l.flush(context.Background()) })
	}
	return n, nil
}

// last returns the end of the log.
func (l *logWriter) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ToValidUTF8(string(l.tail), "\uFFFD")
}

func (l *logWriter) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	l.flush(ctx)
}

// flush stores what was written since the last part.
func (l *logWriter) flush(ctx context.Context) {
	l.store.Lock()
	defer l.store.Unlock()
	l.mu.Lock()
	text := storable(l.buffer)
	l.buffer = nil
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.mu.Unlock()
	if text == "" {
		return
	}
	err := l.service.db.Write(ctx, func(q *db.Q) error {
		q.Announce(logTopic(l.buildID))
		_, err := q.Exec(`
			INSERT INTO agent_image_logs (build_id, seq, text)
			SELECT id, (SELECT COALESCE(MAX(seq), 0) + 1 FROM agent_image_logs WHERE build_id = $1), $2
			FROM agent_image_builds WHERE id = $1`, l.buildID, text)
		return err
	})
	if err != nil {
		l.service.log.Warn("store image build log failed", "build", l.buildID, "error", err)
	}
}

// storable returns bytes as text that both engines store.
func storable(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "")
}

// pollInterval is how often a follower reads the log without being woken.
const pollInterval = 15 * time.Second

// copyLog writes the log of the last build of an image. It follows a build that has not ended, if follow is set.
func (s *Service) copyLog(ctx context.Context, image Image, follow bool, w http.ResponseWriter) error {
	after, buildID := 0, ""
	var woken <-chan struct{}
	for {
		var text string
		var ended bool
		err := s.db.Read(ctx, func(q *db.Q) error {
			b, err := lastBuild(q, image.ID, buildID)
			if err != nil {
				ended = true
				return noRows(err)
			}
			buildID, ended = b.id, b.state != waiting && b.state != running
			text, after, err = logAfter(q, b.id, after)
			return err
		})
		if err == nil && text != "" {
			_, err = io.WriteString(w, text)
		}
		if err != nil || ended && text == "" || !follow && text == "" {
			return err
		}
		if text != "" {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
			continue
		}
		if woken == nil {
			var cancel func()
			woken, cancel = s.bus.Subscribe(logTopic(buildID))
			defer cancel()
			continue // something may have been written before
		}
		select {
		case <-woken:
		case <-time.After(pollInterval):
		case <-s.draining:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// lastBuild returns a build of an image: that with the id, or the last one if the id is empty.
func lastBuild(q *db.Q, imageID, id string) (build, error) {
	if id != "" {
		return db.One(q, scanBuild, selectBuild+`WHERE id = $1`, id)
	}
	return db.One(q, scanBuild, selectBuild+`WHERE image_id = $1 ORDER BY version DESC, created_at DESC, id DESC LIMIT 1`, imageID)
}

// logAfter returns the next parts of a log and the number of the last one.
func logAfter(q *db.Q, buildID string, after int) (text string, last int, err error) {
	type part struct {
		seq  int
		text string
	}
	parts, err := db.All(q, func(scan db.Scan) (p part, err error) { return p, scan(&p.seq, &p.text) },
		`SELECT seq, text FROM agent_image_logs WHERE build_id = $1 AND seq > $2 ORDER BY seq LIMIT 16`, buildID, after)
	last = after
	for _, p := range parts {
		text += p.text
		last = p.seq
	}
	return text, last, err
}

// Drain ends responses that follow logs.
func (s *Service) Drain() { s.drain() }
