package joblog

import (
	"bytes"
	"io"
)

// tamed hands on a log to a terminal without those escape sequences that would take too much memory there:
// ones that are too long, and links and images on a line beyond all reason.
type tamed struct {
	to io.Writer

	state    int
	escape   []byte // from ESC on, up to a byte more than maxEscape
	last     byte   // of it
	elements int    // on this line
}

const (
	// maxEscape is how long a sequence may be: enough for a small picture, in base64.
	maxEscape = 256 << 10
	// maxLink is how long one may be that has no picture in it.
	maxLink = 4 << 10
	// maxElements is how many links and images a line may have.
	maxElements = 100
)

func (t *tamed) Write(b []byte) (int, error) {
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
		done := t.see(rest[0])
		rest = rest[1:]
		if !done {
			continue
		}
		if t.harmless() {
			if _, err := t.to.Write(t.escape); err != nil {
				return 0, err
			}
		}
		t.escape = t.escape[:0]
	}
	return len(b), nil
}

// see takes the next byte of a sequence, or its first, and reports whether it was the last.
func (t *tamed) see(c byte) (last bool) {
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
		endless := c == '\n' && len(t.escape) > maxEscape // so that no more than a line is lost
		if !endless && c != '\a' && (c != '\\' || before != '\x1b') {
			return false
		}
	}
	t.state = inText
	return true
}

// harmless reports whether the sequence may reach the terminal.
func (t *tamed) harmless() bool {
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
