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
	// pace is how long a follower rests after it has got something, so that what is printed meanwhile
	// comes together.
	pace = 100 * time.Millisecond
	// lookEvery is how often a follower looks although nobody woke it, and shows its reader, and all
	// between them, that the stream is alive.
	lookEvery = 15 * time.Second
	// maxEvent is how many bytes of a log are in an event, about.
	maxEvent = 64 << 10
)

// errDraining says that a stream ends because the server does.
var errDraining = errors.New("the server is draining")

// A Position is a place in the content of a log. Deleting the log of a running job starts a new generation
// of the log, at offset 0.
type Position struct{ Generation, Offset int64 }

// currentGeneration is the one that the log has when it is opened.
const currentGeneration = -1

// String returns the id of the event that ends there, which parsePosition reads.
func (p Position) String() string {
	if p.Generation == 0 {
		return strconv.FormatInt(p.Offset, 10)
	}
	return fmt.Sprintf("%d.%d", p.Generation, p.Offset)
}

// parsePosition reads a position; without a generation it is in the first.
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

// Tail gives the content of a log from a position on to a function, some at a time, as it grows, until the
// job has ended and all was given. When what was written so far is deleted, it goes on with what follows.
// idle is called now and then when there is nothing. An error of either ends it. Nothing is held for a
// function that is slow.
func (s *Service) Tail(ctx context.Context, job Job, from Position, give func(at Position, content []byte) error, idle func() error) (size int64, err error) {
	woken, cancel := s.bus.Subscribe(job.topic())
	defer cancel()
	t := &tail{give: give, generation: from.Generation, at: from.Offset}
	for {
		known, err := s.find(ctx, job)
		if err != nil {
			return 0, err
		}
		if t.generation == currentGeneration {
			t.generation = known.generation
		}
		if known.generation != t.generation {
			t.generation, t.at, t.held = known.generation, 0, nil
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
			if err := t.follow(ctx, s, job); err != nil {
				return 0, err
			}
		}
		change, rest := woken, lookEvery
		if t.at > before {
			change, rest = nil, pace
		}
		select {
		case <-change:
		case <-time.After(rest):
			if rest == lookEvery {
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

// tail is how far somebody has followed a log.
type tail struct {
	give       func(at Position, content []byte) error
	generation int64
	at         int64
	held       []byte // the first bytes of a character, at that offset
}

// follow gives what has been added to the log of a running job.
func (t *tail) follow(ctx context.Context, s *Service, job Job) error {
	for from := t.at + int64(len(t.held)); from < s.limits.head; from = t.at + int64(len(t.held)) {
		_, err := s.copyPieces(ctx, t, job.pieces(t.generation), from, s.limits.head)
		if errors.Is(err, blob.ErrNotFound) {
			return nil // not there yet, or moved: whoever moves it wakes us
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rest gives all that is left of a log whose job has ended.
func (t *tail) rest(ctx context.Context, l *Log) error {
	if err := l.Copy(ctx, t, t.at+int64(len(t.held)), l.Size); err != nil {
		return err
	}
	if len(t.held) == 0 {
		return nil
	}
	return t.give(Position{t.generation, t.at}, t.held)
}

// Write gives content, in whole characters.
func (t *tail) Write(b []byte) (int, error) {
	text := append(t.held, b...)
	for len(text) > 0 {
		some := text[:min(len(text), maxEvent)]
		some = some[:len(some)-begun(some)]
		if len(some) == 0 {
			break
		}
		if err := t.give(Position{t.generation, t.at}, some); err != nil {
			return 0, err
		}
		t.at, text = t.at+int64(len(some)), text[len(some):]
	}
	t.held = append([]byte(nil), text...)
	return len(b), nil
}

func (s *Service) stream(r *route.Request, o builds.OnJob) (route.Stream, error) {
	return s.Follow(r, jobOf(o))
}

// Follow answers a request with the content of a log as server-sent events, as it grows, from where the
// request says, for as long as its caller may see it.
func (s *Service) Follow(r *route.Request, job Job) (route.Stream, error) {
	from, err := begin(r)
	if err != nil {
		return route.Stream{}, err
	}
	known, err := s.find(r.Context(), job)
	if err == nil && known.ended {
		_, err = s.Open(r.Context(), job) // so that a log whose bytes are lost is answered as such
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
		give := func(at Position, content []byte) error {
			after := Position{at.Generation, at.Offset + int64(len(content))}
			return e.Send("log", after.String(), logEvent{at.Offset, string(content)})
		}
		ctx, stop := r.WhileAllowed(s.clock)
		defer stop()
		size, err := s.Tail(ctx, job, from, give, e.Idle)
		switch {
		case errors.Is(err, errDraining):
			return nil
		case ctx.Err() != nil && r.Context().Err() == nil: // a reader who comes back is told why
			return nil
		case err != nil:
			return err
		}
		return e.Send("end", "", endEvent{size})
	}}, nil
}

// begin returns where a stream begins: after the last event that the reader has had, or where it asks.
func begin(r *route.Request) (Position, error) {
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
