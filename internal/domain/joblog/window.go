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
	// windowSize is how many bytes at the end of a log a window shows, and windowLines how many of the
	// lines that have left its terminal, at most.
	windowSize  = 256 << 10
	windowLines = 2000
	// lineSearch is how far from where a window could begin the beginning of a line is looked for.
	lineSearch = 16 << 10
)

// A Window shows the end of a log on a terminal, and follows it as it grows. Whatever is in the log, it
// holds a bounded part of it.
type Window struct {
	service *Service
	job     Job

	screen  *terminal.Screen // nil before the first look
	text    *whole           // what the terminal is written through
	settled []string         // lines that have left the terminal since the last look
	earlier bool             // there are lines that nobody was given
	at      int64            // how much of the content was read
	ended   bool
	// generation is that of the log which was read; deleting the log of a running job starts a new one.
	generation int64
}

// Window returns a window on the log of a job.
func (s *Service) Window(job Job) *Window { return &Window{service: s, job: job} }

// A Sight is what one look through a window shows. Lines are HTML, each in a span element of the class line.
type Sight struct {
	// Anew says that what was seen before is to be forgotten.
	Anew bool
	// Earlier says that the log has lines before those that were ever seen, Anew or since.
	Earlier bool
	// Settled are lines that follow those of earlier looks and stay as they are.
	Settled string
	// Screen are the lines after these, which may change until the next look.
	Screen string
	Size   int64 // of the log, in bytes
	Ended  bool  // the job has ended, so the log does not grow any more, unless chunks come late
}

// Look reads what was added to the log since the last look.
func (w *Window) Look(ctx context.Context) (Sight, error) {
	known, err := w.service.find(ctx, w.job)
	if err != nil {
		return Sight{}, err
	}
	anew := w.screen == nil
	if anew || known.ended || known.deleted || known.generation != w.generation {
		anew, err = w.readAll(ctx)
	} else {
		anew, err = w.readOn(ctx)
	}
	if lost, ok := errors.AsType[*core.Error](err); ok && lost.Kind == core.Gone {
		line := `<span class="line">` + html.EscapeString(lost.Message) + "\n</span>"
		return Sight{Anew: true, Settled: line, Ended: known.ended}, nil
	}
	if err != nil {
		return Sight{}, err
	}
	sight := Sight{Anew: anew, Earlier: w.earlier, Settled: strings.Join(w.settled, ""), Screen: onScreen(w.screen), Size: w.at, Ended: w.ended}
	w.settled = nil
	return sight, nil
}

// readOn reads what was added to the log of a running job. When that is more than a window shows, it
// begins anew near the end.
func (w *Window) readOn(ctx context.Context) (anew bool, err error) {
	s := w.service
	for begun := w.at; w.at < s.limits.head; {
		if w.at-begun >= windowSize {
			return w.readAll(ctx)
		}
		n, err := s.copyPieces(ctx, w.text, w.job.pieces(w.generation), w.at, min(s.limits.head, begun+windowSize))
		w.at += n
		if errors.Is(err, blob.ErrNotFound) {
			return false, nil // not there yet, or moved: whoever moves it wakes us
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// readAll reads up to the end of the log, and begins anew where that is too far, or where the content is
// another than what was read before.
func (w *Window) readAll(ctx context.Context) (anew bool, err error) {
	l, err := w.service.Open(ctx, w.job)
	if err != nil {
		return false, err
	}
	changed := w.ended && l.Size != w.at // chunks that came late may have filled a gap
	if w.screen == nil || l.record.generation != w.generation || l.Size < w.at || l.Size-w.at > windowSize || changed {
		anew = true
		if err := w.begin(ctx, l); err != nil {
			return false, err
		}
	}
	if err := l.Copy(ctx, w.text, w.at, l.Size); err != nil {
		return false, err
	}
	w.at, w.ended, w.generation = l.Size, l.Ended, l.record.generation
	return anew, nil
}

// begin opens a new terminal, to show the end of a log from the beginning of a line on.
func (w *Window) begin(ctx context.Context, l *Log) (err error) {
	w.screen, err = terminal.NewScreen(terminal.WithSize(screenColumns, screenLines), terminal.WithMaxSize(screenColumns, screenLines))
	if err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	w.settled, w.earlier, w.at = nil, false, max(0, l.Size-windowSize)
	w.screen.ScrollOutFunc = w.settle
	w.text = &whole{to: &tamed{to: w.screen}}
	if w.at == 0 {
		return nil
	}
	w.earlier = true
	var some bytes.Buffer
	if err := l.Copy(ctx, &some, w.at, w.at+lineSearch); err != nil {
		return err
	}
	w.at += int64(bytes.IndexByte(some.Bytes(), '\n') + 1)
	return nil
}

// settle keeps a line that has left the terminal at its top.
func (w *Window) settle(line string) {
	if len(w.settled) >= windowLines {
		w.settled, w.earlier = w.settled[1:], true
	}
	w.settled = append(w.settled, shownLine(line))
}

// onScreen returns the lines that are on a terminal.
func onScreen(screen *terminal.Screen) string {
	content := screen.AsHTML()
	if content == "" {
		return ""
	}
	var lines strings.Builder
	for line := range strings.Lines(content) {
		lines.WriteString(shownLine(line))
	}
	return lines.String()
}

// stamp is when a line was printed, in front of it.
var stamp = regexp.MustCompile(`^<time datetime="([0-9T:.-]+Z)">[^<]*</time>`)

// heading finds the lines that begin a section, in whatever color.
var heading = regexp.MustCompile(`^(?:<[^>]*>)*(?:---|\+\+\+|~~~) `)

// shownLine returns a line of the terminal as windows show it: when it was printed with the seconds of a
// day, and marked when it is the heading of a section.
func shownLine(line string) string {
	line = strings.TrimSuffix(disarmed(line), "\n")
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
