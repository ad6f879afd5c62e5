package joblog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"

	terminal "github.com/buildkite/terminal-to-html/v3"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
)

const (
	// windowSize is how many bytes at the end of a log a window shows. windowLines limits the lines that have
	// scrolled out of its terminal.
	windowSize  = 256 << 10
	windowLines = 2000
	// lineSearch is how far a window searches for the beginning of a line to start at.
	lineSearch = 16 << 10
)

// A Window renders the end of a log on a terminal and follows it as it grows. Its memory is bounded for any
// log.
type Window struct {
	service *Service
	job     Job

	screen    *terminal.Screen // nil before the first Read
	text      *utf8Writer      // writes to the terminal
	settled   []string         // lines that have scrolled out of the terminal since the last Read
	truncated bool             // whether lines were dropped
	at        int64            // how much of the content was read
	ended     bool
	// generation is the generation of the log that was read. Deleting the log of a running job starts a new
	// one.
	generation int64
}

// Window returns a window on the log of a job.
func (s *Service) Window(job Job) *Window { return &Window{service: s, job: job} }

// A WindowUpdate is what changed in a window. Lines are HTML, each in a span element of the class line.
type WindowUpdate struct {
	// Reset is whether to discard all earlier lines.
	Reset bool
	// Truncated is whether the log has lines before those in this and earlier updates since the last Reset.
	Truncated bool
	// Settled are lines that follow those of earlier updates and do not change any more.
	Settled string
	// Screen are the lines after these, which can change until the next update.
	Screen string
	Size   int64 // of the log, in bytes
	Ended  bool  // whether the job has ended; the log then grows only by late chunks
}

// Read reads what was added to the log since the last call.
func (w *Window) Read(ctx context.Context) (WindowUpdate, error) {
	known, err := w.service.find(ctx, w.job)
	if err != nil {
		return WindowUpdate{}, err
	}
	reset := w.screen == nil
	if reset || known.ended || known.deleted || known.generation != w.generation {
		reset, err = w.readAll(ctx)
	} else {
		reset, err = w.readNew(ctx, known.pieces(w.job))
	}
	if lost, ok := errors.AsType[*core.Error](err); ok && lost.Kind == core.Gone {
		line := `<span class="line">` + html.EscapeString(lost.Message) + "\n</span>"
		return WindowUpdate{Reset: true, Settled: line, Ended: known.ended}, nil
	}
	if err != nil {
		return WindowUpdate{}, err
	}
	update := WindowUpdate{Reset: reset, Truncated: w.truncated, Settled: strings.Join(w.settled, ""), Screen: renderScreen(w.screen), Size: w.at, Ended: w.ended}
	w.settled = nil
	return update, nil
}

// readNew reads what was added to the log of a running job. If that is more than a window shows, it starts
// again near the end.
func (w *Window) readNew(ctx context.Context, u unsealed) (reset bool, err error) {
	s := w.service
	for begun := w.at; w.at < s.limits.head; {
		if w.at-begun >= windowSize {
			return w.readAll(ctx)
		}
		n, err := s.copyPieces(ctx, w.text, u, w.at, min(s.limits.head, begun+windowSize))
		w.at += n
		if errors.Is(err, blob.ErrNotFound) {
			return false, nil // not written yet, or moved; moving it wakes the reader
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// readAll reads to the end of the log. It starts again if that is too far, or if the content differs from what
// was read before.
func (w *Window) readAll(ctx context.Context) (reset bool, err error) {
	l, err := w.service.Open(ctx, w.job)
	if err != nil {
		return false, err
	}
	changed := w.ended && l.Size != w.at // late chunks may have filled a gap
	if w.screen == nil || l.record.generation != w.generation || l.Size < w.at || l.Size-w.at > windowSize || changed {
		reset = true
		if err := w.reset(ctx, l); err != nil {
			return false, err
		}
	}
	if err := l.Copy(ctx, w.text, w.at, l.Size); err != nil {
		return false, err
	}
	w.at, w.ended, w.generation = l.Size, l.Ended, l.record.generation
	return reset, nil
}

// reset opens a new terminal that shows the end of a log, starting at the beginning of a line.
func (w *Window) reset(ctx context.Context, l *Log) (err error) {
	w.screen, err = terminal.NewScreen(terminal.WithSize(screenColumns, screenLines), terminal.WithMaxSize(screenColumns, screenLines))
	if err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	w.settled, w.truncated, w.at = nil, false, max(0, l.Size-windowSize)
	w.screen.ScrollOutFunc = w.appendSettled
	w.text = &utf8Writer{to: &escapeFilter{to: w.screen}}
	if w.at == 0 {
		return nil
	}
	w.truncated = true
	var some bytes.Buffer
	if err := l.Copy(ctx, &some, w.at, w.at+lineSearch); err != nil {
		return err
	}
	w.at += int64(bytes.IndexByte(some.Bytes(), '\n') + 1)
	return nil
}

// appendSettled adds a line that has scrolled out of the terminal.
func (w *Window) appendSettled(line string) {
	if len(w.settled) >= windowLines {
		w.settled, w.truncated = w.settled[1:], true
	}
	w.settled = append(w.settled, renderLine(line))
}

// renderScreen returns the lines on a terminal.
func renderScreen(screen *terminal.Screen) string {
	content := screen.AsHTML()
	if content == "" {
		return ""
	}
	var lines strings.Builder
	for line := range strings.Lines(content) {
		lines.WriteString(renderLine(line))
	}
	return lines.String()
}

// stamp matches the time in front of a line.
var stamp = regexp.MustCompile(`^<time datetime="([0-9T:.-]+Z)">[^<]*</time>`)

// heading matches lines that start a section, in any color.
var heading = regexp.MustCompile(`^(?:<[^>]*>)*(?:---|\+\+\+|~~~) `)

// renderLine returns a line as windows show it: with the time of day up to seconds, and marked if it is the
// heading of a section.
func renderLine(line string) string {
	line = strings.TrimSuffix(sanitizeLinks(line), "\n")
	at := ""
	if m := stamp.FindStringSubmatch(line); m != nil {
		_, clock, _ := strings.Cut(m[1], "T")
		at, line = `<time datetime="`+m[1]+`">`+clock[:min(len(clock), len("15:04:05"))]+`</time>`, line[len(m[0]):]
	}
	class := "line"
	if heading.MatchString(line) {
		class = "line heading"
	}
	return `<span class="` + class + `">` + at + line + "\n</span>"
}
