// Package redact removes secret values from logs. It finds a value across writes, line breaks and escape
// sequences, and in its common forms: line by line, JSON-encoded, in hex, and in base64 at any alignment.
//
// The text is searched in two ways at the same time: as written, and as a terminal shows it. The second search
// runs only near escape sequences; elsewhere both are equal.
package redact

import (
	"io"
	"slices"
	"sync"
)

// Mark replaces a secret value.
const Mark = "[REDACTED]"

// maxBreaks is the maximum number of consecutive line break bytes inside a value: enough for an empty line
// where nested terminals write each break as \r\r\n. It limits what is buffered.
const maxBreaks = 8

// A Redactor writes through to out and replaces secret values. It buffers the end of the text while it could be
// the start of a value. Its methods are safe for concurrent use.
type Redactor struct {
	mu      sync.Mutex
	out     io.Writer
	needles []string
	find    *automaton

	pending []byte // not written to out yet
	scanned int    // of pending
	hits    []span // in pending, sorted, not overlapping
	state   int32  // of find
	breaks  int    // consecutive, up to scanned

	// State of the search in the text as a terminal shows it. It is used from an escape sequence until neither
	// search is inside a possible value.
	split   bool
	visible int32  // the state of find
	escape  escape // up to scanned
	hidden  []span // in pending, sorted, not adjacent
}

// A span is a range of pending.
type span struct{ start, end int }

// New returns a redactor without values.
func New(out io.Writer) *Redactor {
	return &Redactor{out: out, find: newAutomaton(nil)}
}

// Add adds secret values, which are replaced in everything that is not written yet. It returns how many are too
// short to be replaced, because they would match everywhere.
func (r *Redactor) Add(values ...string) (tooShort int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := len(r.needles)
	for _, value := range values {
		forms := Forms(value)
		if len(forms) == 0 && value != "" {
			tooShort++
		}
		r.needles = append(r.needles, forms...)
	}
	if len(r.needles) == known {
		return tooShort
	}
	slices.Sort(r.needles)
	r.needles = slices.Compact(r.needles)
	r.find = newAutomaton(r.needles)
	r.scanned, r.hits = 0, nil
	r.reset()
	r.scan()
	return tooShort
}

// Write writes p with values replaced. It never writes a part of a value.
func (r *Redactor) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, p...)
	r.scan()
	if err := r.release(r.settled()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes the buffered text: nothing follows that could complete a value.
func (r *Redactor) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.release(len(r.pending))
	r.reset()
	return err
}

// reset restarts both searches.
func (r *Redactor) reset() {
	r.state, r.breaks = root, 0
	r.split, r.visible, r.escape, r.hidden = false, root, escape{}, nil
}

// scan searches the rest of pending.
func (r *Redactor) scan() {
	for ; r.scanned < len(r.pending); r.scanned++ {
		if r.state == root && !r.split {
			r.scanned += r.find.skip(r.pending[r.scanned:])
			if r.scanned == len(r.pending) {
				return
			}
		}
		c := r.pending[r.scanned]
		if !r.split && isControl(c) {
			r.split, r.visible, r.escape = true, r.state, escape{}
		}
		if r.split {
			r.scanVisible(c)
		}
		if isBreak(c) {
			if r.breaks++; r.breaks > maxBreaks {
				r.state, r.visible = root, root
			}
			continue
		}
		r.breaks = 0
		r.state = r.find.next(r.state, c)
		if length := r.find.matched(r.state); length > 0 {
			r.hit(span{r.back(r.scanned+1, length), r.scanned + 1})
		}
	}
}

// scanVisible processes the next byte of the text as a terminal shows it.
func (r *Redactor) scanVisible(c byte) {
	switch {
	case r.escape.hides(c):
		if last := len(r.hidden) - 1; last >= 0 && r.hidden[last].end == r.scanned {
			r.hidden[last].end++
		} else {
			r.hidden = append(r.hidden, span{r.scanned, r.scanned + 1})
		}
		if r.escape.run > maxHidden {
			r.visible = root
		}
	case !isBreak(c):
		r.visible = r.find.next(r.visible, c)
		if length := r.find.matched(r.visible); length > 0 {
			r.hit(span{r.visibleBack(r.scanned+1, length), r.scanned + 1})
		}
	}
	if r.escape.state == plain && r.visible == root && r.state == root {
		r.split, r.hidden = false, nil
	}
}

// back returns the start of the last n bytes before an index, ignoring line breaks.
func (r *Redactor) back(index, bytes int) int {
	for bytes > 0 {
		index--
		if !isBreak(r.pending[index]) {
			bytes--
		}
	}
	return index
}

// visibleBack returns the start of the last n visible bytes before an index, ignoring line breaks.
func (r *Redactor) visibleBack(index, bytes int) int {
	last := len(r.hidden) - 1
	for bytes > 0 {
		index--
		for last >= 0 && r.hidden[last].start > index {
			last--
		}
		if last >= 0 && index < r.hidden[last].end {
			index = r.hidden[last].start
			continue
		}
		if !isBreak(r.pending[index]) {
			bytes--
		}
	}
	return index
}

// hit records a found value and merges it with those that it overlaps.
func (r *Redactor) hit(s span) {
	for len(r.hits) > 0 {
		last := r.hits[len(r.hits)-1]
		if last.end <= s.start {
			break
		}
		s.start = min(s.start, last.start)
		r.hits = r.hits[:len(r.hits)-1]
	}
	r.hits = append(r.hits, s)
}

// settled returns how much of pending cannot change with later bytes.
func (r *Redactor) settled() int {
	end := r.back(r.scanned, r.find.depth(r.state))
	if r.split {
		end = min(end, r.visibleBack(r.scanned, r.find.depth(r.visible)))
	}
	for _, h := range slices.Backward(r.hits) {
		if h.end > end {
			end = min(end, h.start)
		}
	}
	return end
}

// release writes the start of pending, with values replaced.
func (r *Redactor) release(end int) error {
	if end == 0 {
		return nil
	}
	clean, replaced := r.pending[:end], 0
	if len(r.hits) > 0 && r.hits[0].start < end {
		clean, replaced = r.replace(end)
	}
	_, err := r.out.Write(clean)
	r.pending = slices.Delete(r.pending, 0, end)
	r.scanned -= end
	r.hits = slices.Delete(r.hits, 0, replaced)
	r.hits = shifted(r.hits, end)
	r.hidden = shifted(slices.DeleteFunc(r.hidden, func(s span) bool { return s.end <= end }), end)
	return err
}

// shifted returns spans after the first n bytes of pending were removed.
func shifted(spans []span, bytes int) []span {
	for i := range spans {
		spans[i].start = max(spans[i].start-bytes, 0)
		spans[i].end -= bytes
	}
	return spans
}

// replace returns the start of pending with a mark for each hit, and the number of hits.
func (r *Redactor) replace(end int) (clean []byte, replaced int) {
	at := 0
	for _, h := range r.hits {
		if h.start >= end {
			break
		}
		clean = append(clean, r.pending[at:h.start]...)
		clean = append(clean, Mark...)
		at = h.end
		replaced++
	}
	return append(clean, r.pending[at:end]...), replaced
}

func isControl(c byte) bool { return (c < ' ' || c == 0x7f) && c != '\t' && !isBreak(c) }

func isBreak(c byte) bool { return c == '\n' || c == '\r' }
