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

// The size of the terminal that renders a log: the size that agents give to jobs. Lines that have scrolled out
// of it cannot change any more, so they are written and dropped.
const screenColumns, screenLines = 160, 100

// WriteHTML writes the log as HTML: one line of HTML per line of the log, with span elements whose classes
// begin with term-.
func (l *Log) WriteHTML(ctx context.Context, w io.Writer) error {
	page := bufio.NewWriterSize(w, 32<<10)
	screen, err := terminal.NewScreen(terminal.WithSize(screenColumns, screenLines), terminal.WithMaxSize(screenColumns, screenLines))
	if err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	// bufio keeps the first error and returns it from the next write or flush.
	screen.ScrollOutFunc = func(line string) { page.WriteString(sanitizeLinks(line)) }
	page.WriteString(`<div class="term-container">`)
	text := &utf8Writer{to: &escapeFilter{to: screen}}
	err = l.Copy(ctx, io.MultiWriter(text, abortWriter{page}), 0, l.Size)
	if err == nil {
		err = text.flush()
	}
	if err != nil {
		return err
	}
	page.WriteString(sanitizeLinks(screen.AsHTML()))
	page.WriteString("</div>\n")
	return page.Flush()
}

// abortWriter fails once writing to page has failed, so that rendering stops when the reader has disconnected.
type abortWriter struct{ page *bufio.Writer }

func (f abortWriter) Write(b []byte) (int, error) {
	_, err := f.page.Write(nil)
	return len(b), err
}

// link matches the targets of elements in rendered lines. All quotes in the text of a log are escaped.
var link = regexp.MustCompile(` (?:href|src)="[^"]*"`)

// sanitizeLinks removes links from rendered lines, except to pages, mail and artifacts, and images from
// anywhere else but these and the log itself: browsers would run some of the others. It also removes NUL, which
// HTML cannot contain.
func sanitizeLinks(lines string) string {
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
