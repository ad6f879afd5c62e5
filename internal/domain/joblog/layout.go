package joblog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// A span is a range of a log's bytes, with offsets as the agent counts them.
type span struct{ from, to int64 }

// union returns sorted, disjoint spans that cover the same bytes.
func union(spans []span) []span {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s span) bool { return s.from >= s.to })
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var whole []span
	for _, s := range spans {
		if n := len(whole); n > 0 && s.from <= whole[n-1].to {
			whole[n-1].to = max(whole[n-1].to, s.to)
			continue
		}
		whole = append(whole, s)
	}
	return whole
}

// maxSpans limits the spans of a log with gaps between them. No agent loses as many chunks.
const maxSpans = 1 << 16

// retained returns what is left of known spans when a log that is too large is cut to its head and tail.
func (l limits) retained(known []span) []span {
	if len(known) == 0 {
		return nil
	}
	tail := known[len(known)-1].to - l.tail
	var left []span
	for _, s := range known {
		left = append(left, span{s.from, min(s.to, l.head)}, span{max(s.from, l.head, tail), s.to})
	}
	left = union(left)
	return left[:min(len(left), maxSpans)]
}

// A part of the content is a span of the log's bytes, or a marker in place of missing bytes.
type part struct {
	at     int64 // offset in the content
	size   int64
	raw    int64 // offset of its bytes in the log
	marker string
}

func (p part) end() int64 { return p.at + p.size }

// layout returns the content: of a running job up to the first missing byte, of an ended job all known bytes.
// The known spans are sorted and disjoint.
func (l limits) layout(known []span, ended bool) []part {
	if !ended {
		if len(known) == 0 || known[0].from > 0 {
			return nil
		}
		return []part{{size: min(known[0].to, l.head)}}
	}
	var parts []part
	var at, raw int64
	add := func(p part) {
		p.at = at
		parts = append(parts, p)
		at += p.size
	}
	for _, s := range l.retained(known) {
		if s.from > raw {
			text := marker(raw, s.from-raw)
			add(part{marker: text, size: int64(len(text))})
		}
		add(part{raw: s.from, size: s.to - s.from})
		raw = s.to
	}
	return parts
}

// marker returns a line that says how many bytes are missing at an offset.
func marker(offset, missing int64) string {
	text := fmt.Sprintf("[%s bytes of the log are missing here]\r\n", groupDigits(missing))
	if offset > 0 {
		text = "\r\n" + text
	}
	return text
}

// groupDigits formats a number with separated thousands.
func groupDigits(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// size returns the size of the content.
func size(parts []part) int64 {
	if len(parts) == 0 {
		return 0
	}
	return parts[len(parts)-1].end()
}
