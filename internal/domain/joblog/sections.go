package joblog

import (
	"bytes"
	"strconv"
	"strings"
)

// headerTimes finds the start times of a log's sections. A section starts with a line that begins with ---, +++
// or ~~~ and a space. Agents put the time before each line: ESC _bk;t=MILLISECONDS BEL.
type headerTimes struct {
	found []int64 // in nanoseconds

	state  int
	escape []byte // bytes after ESC, up to maxStamp
	line   []byte // first characters of the line, without escapes, up to headerLength
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

// Write scans the next bytes of the log.
func (h *headerTimes) Write(b []byte) (int, error) {
	for i := 0; i < len(b); i++ {
		// Most bytes are in the rest of a line.
		if h.state == inText && len(h.line) == headerLength {
			next := bytes.IndexAny(b[i:], "\n\x1b")
			if next < 0 {
				break
			}
			i += next
		}
		h.next(b[i])
	}
	return len(b), nil
}

func (h *headerTimes) next(c byte) {
	switch h.state {
	case inText:
		h.nextText(c)
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
			h.readStamp(string(h.escape))
			h.state = inText
		case c == '\x1b': // start of ESC \; its second byte ends the state like an unknown escape
			h.readStamp(string(h.escape))
			h.state = inEscape
		case len(h.escape) < maxStamp:
			h.escape = append(h.escape, c)
		}
	}
}

func (h *headerTimes) nextText(c byte) {
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

// readStamp takes the time from a sequence like _bk;t=1700000000000, or from one with dt, the difference to the
// previous time.
func (h *headerTimes) readStamp(sequence string) {
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
