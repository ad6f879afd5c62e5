package joblog

import (
	"bytes"
	"io"
)

// escapeFilter passes a log to a terminal without escape sequences that would use too much memory there:
// sequences that are too long, and too many links and images on a line.
type escapeFilter struct {
	to io.Writer

	state    int
	escape   []byte // from ESC on, up to maxEscape+1 bytes
	last     byte   // last byte of the sequence so far
	elements int    // number on this line
}

const (
	// maxEscape is the length limit of a sequence: enough for a small image in base64.
	maxEscape = 256 << 10
	// maxLink is the length limit of a sequence without an image.
	maxLink = 4 << 10
	// maxElements limits the links and images of a line.
	maxElements = 100
)

func (t *escapeFilter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if t.state == inText {
			text, found := rest, bytes.IndexByte(rest, '\x1b')
			if found >= 0 {
				text = rest[:found]
			}
			if bytes.IndexByte(text, '\n') >= 0 {
				t.elements = 0
			}
			if _, err := t.to.Write(text); err != nil {
				return 0, err
			}
			if rest = rest[len(text):]; len(rest) == 0 {
				break
			}
		}
		done := t.next(rest[0])
		rest = rest[1:]
		if !done {
			continue
		}
		if t.allowed() {
			if _, err := t.to.Write(t.escape); err != nil {
				return 0, err
			}
		}
		t.escape = t.escape[:0]
	}
	return len(b), nil
}

// next adds the next byte of a sequence and reports whether it was the last.
func (t *escapeFilter) next(c byte) (last bool) {
	if len(t.escape) <= maxEscape {
		t.escape = append(t.escape, c)
	}
	before := t.last
	t.last = c
	switch t.state {
	case inText: // c is ESC
		t.state = inEscape
		return false
	case inEscape:
		switch c {
		case '[':
			t.state = inControl
			return false
		case '_', ']':
			t.state = inString
			return false
		case '\x1b':
			return false
		}
	case inControl:
		if c < '@' || c > '~' {
			return false
		}
	case inString:
		endless := c == '\n' && len(t.escape) > maxEscape // so that at most one line is lost
		if !endless && c != '\a' && (c != '\\' || before != '\x1b') {
			return false
		}
	}
	t.state = inText
	return true
}

// allowed reports whether the sequence can be passed on.
func (t *escapeFilter) allowed() bool {
	if !bytes.HasPrefix(t.escape, []byte("\x1b]")) {
		return len(t.escape) <= maxLink
	}
	t.elements++
	most := maxLink
	if bytes.HasPrefix(t.escape, []byte("\x1b]1337;")) {
		most = maxEscape
	}
	return t.elements <= maxElements && len(t.escape) <= most
}
