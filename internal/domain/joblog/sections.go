package joblog

import (
	"bytes"
	"strconv"
	"strings"
)

// headerTimes finds when the sections of a log began. A section begins with a line that begins with ---,
// +++ or ~~~ and a space, and agents put the time before each line: ESC _bk;t=MILLISECONDS BEL.
type headerTimes struct {
	found []int64 // in nanoseconds

	state  int
	escape []byte // what follows ESC, up to maxStamp bytes
	line   []byte // the first characters of the line, without escapes, up to headerLength
	stamp  int64  // the last time, in milliseconds
}

const (
	inText = iota
	inEscape
	inControl // after ESC [
	inString  // after ESC _ or ESC ], up to BEL or ESC \

	headerLength = 4
	maxStamp     = 64
)

// Write looks at what follows in the log.
func (h *headerTimes) Write(b []byte) (int, error) {
	for i := 0; i < len(b); i++ {
		// Most of a log is the rest of some line.
		if h.state == inText && len(h.line) == headerLength {
			next := bytes.IndexAny(b[i:], "\n\x1b")
			if next < 0 {
				break
			}
			i += next
		}
		h.see(b[i])
	}
	return len(b), nil
}

func (h *headerTimes) see(c byte) {
	switch h.state {
	case inText:
		h.seeText(c)
	case inEscape:
		switch c {
		case '[':
			h.state = inControl
		case '_', ']':
			h.state, h.escape = inString, append(h.escape[:0], c)
		default:
			h.state = inText
		}
	case inControl:
		if c >= '@' && c <= '~' {
			h.state = inText
		}
	case inString:
		switch {
		case c == '\a':
			h.seeString(string(h.escape))
			h.state = inText
		case c == '\x1b': // the beginning of ESC \, whose second byte ends the state as an unknown escape does
			h.seeString(string(h.escape))
			h.state = inEscape
		case len(h.escape) < maxStamp:
			h.escape = append(h.escape, c)
		}
	}
}

func (h *headerTimes) seeText(c byte) {
	switch {
	case c == '\x1b':
		h.state = inEscape
	case c == '\n':
		h.line = h.line[:0]
	case c == '\r' && len(h.line) == 0:
	case len(h.line) < headerLength:
		h.line = append(h.line, c)
		if isHeader(h.line) && h.stamp > 0 && len(h.found) < maxHeaders {
			h.found = append(h.found, h.stamp*1_000_000)
		}
	}
}

func isHeader(line []byte) bool {
	switch string(line) {
	case "--- ", "+++ ", "~~~ ":
		return true
	}
	return false
}

// seeString takes the time from a sequence such as _bk;t=1700000000000, or from one with dt, how much later
// it is.
func (h *headerTimes) seeString(sequence string) {
	fields, ok := strings.CutPrefix(sequence, "_bk;")
	if !ok {
		return
	}
	for field := range strings.SplitSeq(fields, ";") {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		const most = 1 << 43 // the year 2248, in milliseconds
		switch {
		case err != nil || n < 0 || n > most:
		case name == "t":
			h.stamp = n
		case name == "dt" && h.stamp+n < most:
			h.stamp += n
		}
	}
}
