package joblog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

const (
	// minInterval is the pause of a follower after it has read something, so that output is batched.
	minInterval = 100 * time.Millisecond
	// pollInterval is how often a follower reads without being woken. It also sends a sign of life to the
	// reader and to proxies.
	pollInterval = 15 * time.Second
	// maxEvent is the approximate number of bytes of a log in one event.
	maxEvent = 64 << 10
)

// errDraining ends a stream because the server is shutting down.
var errDraining = errors.New("the server is draining")

// A Position is an offset in the content of a generation of a log. Deleting the log of a running job starts a
// new generation at offset 0.
type Position struct{ Generation, Offset int64 }

// currentGeneration means the generation that the log has when it is opened.
const currentGeneration = -1

// String returns the id of the event that ends at the position. parsePosition parses it.
func (p Position) String() string {
	if p.Generation == 0 {
		return strconv.FormatInt(p.Offset, 10)
	}
	return fmt.Sprintf("%d.%d", p.Generation, p.Offset)
}

// parsePosition parses a position; without a generation it means the first.
func parsePosition(text string) (p Position, ok bool) {
	offset := text
	if generation, rest, ok := strings.Cut(text, "."); ok {
		n, err := strconv.ParseUint(generation, 10, 62)
		if err != nil {
			return p, false
		}
		p.Generation, offset = int64(n), rest
	}
	n, err := strconv.ParseUint(offset, 10, 62)
	p.Offset = int64(n)
	return p, err == nil
}

// Tail passes the content of a log from a position to emit, in pieces, as it grows, until the job has ended and
// everything was passed. If the log is deleted meanwhile, it continues with the next generation. It calls idle
// from time to time while there is nothing new. An error of either function ends it. Nothing is buffered for a
// slow function.
func (s *Service) Tail(ctx context.Context, job Job, from Position, emit func(at Position, content []byte) error, idle func() error) (size int64, err error) {
	woken, cancel := s.bus.Subscribe(job.topic())
	defer cancel()
	t := &tail{emit: emit, generation: from.Generation, at: from.Offset}
	for {
		known, err := s.find(ctx, job)
		if err != nil {
			return 0, err
		}
		if t.generation == currentGeneration {
			t.generation = known.generation
		}
		if known.generation != t.generation {
			t.generation, t.at, t.partial = known.generation, 0, nil
		}
		before := t.at
		switch {
		case known.deleted:
			return 0, nil
		case known.ended:
			l, err := s.Open(ctx, job)
			if err != nil {
				return 0, err
			}
			return l.Size, t.rest(ctx, l)
		default:
			if err := t.follow(ctx, s, known.pieces(job)); err != nil {
				return 0, err
			}
		}
		change, rest := woken, pollInterval
		if t.at > before {
			change, rest = nil, minInterval
		}
		select {
		case <-change:
		case <-time.After(rest):
			if rest == pollInterval {
				if err := idle(); err != nil {
					return 0, err
				}
			}
		case <-s.draining:
			return 0, errDraining
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// tail is the state of one follower.
type tail struct {
	emit       func(at Position, content []byte) error
	generation int64
	at         int64
	partial    []byte // first bytes of an incomplete character
}

// follow emits what was added to the log of a running job.
func (t *tail) follow(ctx context.Context, s *Service, u unsealed) error {
	for from := t.at + int64(len(t.partial)); from < s.limits.head; from = t.at + int64(len(t.partial)) {
		_, err := s.copyPieces(ctx, t, u, from, s.limits.head)
		if errors.Is(err, blob.ErrNotFound) {
			return nil // not written yet, or moved; moving it wakes the follower
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rest emits the rest of a log whose job has ended.
func (t *tail) rest(ctx context.Context, l *Log) error {
	if err := l.Copy(ctx, t, t.at+int64(len(t.partial)), l.Size); err != nil {
		return err
	}
	if len(t.partial) == 0 {
		return nil
	}
	return t.emit(Position{t.generation, t.at}, t.partial)
}

// Write emits content in complete characters.
func (t *tail) Write(b []byte) (int, error) {
	text := append(t.partial, b...)
	for len(text) > 0 {
		some := text[:min(len(text), maxEvent)]
		some = some[:len(some)-incompleteSuffix(some)]
		if len(some) == 0 {
			break
		}
		if err := t.emit(Position{t.generation, t.at}, some); err != nil {
			return 0, err
		}
		t.at, text = t.at+int64(len(some)), text[len(some):]
	}
	t.partial = append([]byte(nil), text...)
	return len(b), nil
}

func (s *Service) stream(r *route.Request, o builds.OnJob) (route.Stream, error) {
	return s.Follow(r, jobOf(o))
}

// Follow streams the content of a log as server-sent events as it grows, from the position in the request, for
// as long as the caller can see it.
func (s *Service) Follow(r *route.Request, job Job) (route.Stream, error) {
	from, err := startPosition(r)
	if err != nil {
		return route.Stream{}, err
	}
	known, err := s.find(r.Context(), job)
	if err == nil && known.ended {
		_, err = s.Open(r.Context(), job) // report lost bytes as a response, not in the stream
	}
	if err != nil {
		return route.Stream{}, err
	}
	return route.Stream{Type: eventType, Size: -1, Write: func(w http.ResponseWriter) error {
		route.SetEventHeaders(w.Header())
		e, err := route.NewEvents(w)
		if err != nil {
			return err
		}
		defer e.End()
		emit := func(at Position, content []byte) error {
			after := Position{at.Generation, at.Offset + int64(len(content))}
			return e.Send("log", after.String(), logEvent{at.Offset, string(content)})
		}
		ctx, stop := r.WhileAllowed(s.clock)
		defer stop()
		size, err := s.Tail(ctx, job, from, emit, e.Idle)
		switch {
		case errors.Is(err, errDraining):
			return nil
		case ctx.Err() != nil && r.Context().Err() == nil: // describe a reconnecting reader why
			return nil
		case err != nil:
			return err
		}
		return e.Send("end", "", endEvent{size})
	}}, nil
}

// startPosition returns the position after the last event that the reader received, or the requested one.
func startPosition(r *route.Request) (Position, error) {
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		p, ok := parsePosition(text)
		if !ok {
			return p, core.Errorf(core.BadRequest, "The Last-Event-ID must be the id of an event of this stream")
		}
		return p, nil
	}
	start := Position{Generation: currentGeneration}
	if text := r.FormQuery("offset"); text != "" {
		n, err := strconv.ParseUint(text, 10, 62)
		if err != nil {
			return start, core.Errorf(core.BadRequest, "The offset must be a number of bytes")
		}
		start.Offset = int64(n)
	}
	return start, nil
}

// logEvent is the data of an event with content of a log.
type logEvent struct {
	Offset  int64  `json:"offset"`
	Content string `json:"content"`
}

// endEvent is the data of the last event.
type endEvent struct {
	Size int64 `json:"size"`
}
