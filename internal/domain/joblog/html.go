package joblog

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"strings"

	terminal "github.com/buildkite/terminal-to-html/v3"
)

// The size of the terminal that a log is shown on is that of the one that agents give to jobs. Lines that
// have left it at its top cannot be changed any more, so they are written and forgotten.
const screenColumns, screenLines = 160, 100

// WriteHTML writes all of the log as HTML that a page can hold: one line of it for each line of the log,
// with span elements whose classes begin with term-.
func (l *Log) WriteHTML(ctx context.Context, w io.Writer) error {
	page := bufio.NewWriterSize(w, 32<<10)
	screen, err := terminal.NewScreen(terminal.WithSize(screenColumns, screenLines), terminal.WithMaxSize(screenColumns, screenLines))
	if err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	// bufio remembers the first error, and gives it to whoever writes or flushes next.
	screen.ScrollOutFunc = func(line string) { page.WriteString(disarmed(line)) }
	page.WriteString(`<div class="term-container">`)
	text := &whole{to: &tamed{to: screen}}
	err = l.Copy(ctx, io.MultiWriter(text, failing{page}), 0, l.Size)
	if err == nil {
		err = text.end()
	}
	if err != nil {
		return err
	}
	page.WriteString(disarmed(screen.AsHTML()))
	page.WriteString("</div>\n")
	return page.Flush()
}

// failing fails once a writer has failed, so that nobody renders a log for a reader who has gone.
type failing struct{ page *bufio.Writer }

func (f failing) Write(b []byte) (int, error) {
	_, err := f.page.Write(nil)
	return len(b), err
}

// link finds what the elements of rendered lines lead to. All quotes in the text of a log are escaped.
var link = regexp.MustCompile(` (?:href|src)="[^"]*"`)

// disarmed returns rendered lines without links to anything but pages, mail and artifacts, and without
// images from anywhere else but these and the log itself: a browser would run what some others say. They
// have no NUL either, which HTML cannot contain.
func disarmed(lines string) string {
	lines = strings.ReplaceAll(lines, "\x00", "")
	if !strings.Contains(lines, `href="`) && !strings.Contains(lines, `src="`) {
		return lines
	}
	return link.ReplaceAllStringFunc(lines, func(attribute string) string {
		name, value, _ := strings.Cut(attribute, `="`)
		u, err := url.Parse(html.UnescapeString(strings.TrimSuffix(value, `"`)))
		if err == nil {
			switch u.Scheme {
			case "", "http", "https", "mailto", "artifact":
				return attribute
			case "data":
				if name == " src" && strings.HasPrefix(u.Opaque, "image/") {
					return attribute
				}
			}
		}
		return name + `="#"`
	})
}
