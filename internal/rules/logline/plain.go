package logline

import "bytes"

// AppendText appends the characters of a line without escape sequences, as they were written: what a carriage
// return covers is kept. It is cheaper than rendering, for reading whole logs. The second result is the time in the
// line, in milliseconds since 1970, or 0.
func AppendText(to, raw []byte, before int64) (text []byte, stamp int64) {
	stamp = before
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '\x1b')
		if i < 0 {
			to = append(to, raw...)
			break
		}
		to = append(to, raw[:i]...)
		raw = raw[i:]
		if len(raw) > 1 && raw[1] == '_' {
			body, n := stringSequence(raw[2:])
			stamp, raw = nextStamp(stamp, body), raw[2+n:]
			continue
		}
		raw = raw[sequenceLength(raw):]
	}
	return bytes.TrimRight(to, "\r"), stamp
}

// sequenceLength returns the length of the escape sequence at the beginning of raw.
func sequenceLength(raw []byte) int {
	if len(raw) < 2 {
		return len(raw)
	}
	switch raw[1] {
	case '[':
		for i := 2; i < len(raw); i++ {
			if isFinal(raw[i]) {
				return i + 1
			}
		}
		return len(raw)
	case ']', 'P', '^', 'X', '_':
		_, n := stringSequence(raw[2:])
		return 2 + n
	case '(', ')', '#', '%':
		return min(3, len(raw))
	}
	return 2
}

// isFinal reports whether a byte ends a sequence that begins with ESC [.
func isFinal(c byte) bool { return c >= '@' && c <= '~' }

// KindOf returns the kind of a line by its text, without escape sequences.
func KindOf(text string) Kind { return kindOf(text) }
