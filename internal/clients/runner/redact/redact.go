// Package redact keeps secret values out of logs. A value is found in whatever pieces it is written,
// over line breaks and escape sequences, and in the forms in which values commonly appear: line by line, as
// a JSON text, in hex, and in base64, also where something stands before it.
//
// The text is searched twice at the same time: as it is, and as a terminal shows it. The second search only
// runs near escape sequences; elsewhere both are the same.
package redact

import (
	"io"
	"slices"
	"sync"
)

// Mark is written in place of a secret value.
const Mark = "[REDACTED]"

// maxBreaks is how many line break bytes in a row a value may be interrupted by: an empty line, where
// terminals inside of terminals write each break as \r\r\n, and some. It bounds what is held back.
const maxBreaks = 8

// A Redactor writes what is written to it, with secret values replaced. The end of what was written is
// held back while it could be the beginning of a value. Its methods may be called at the same time.
type Redactor struct {
	mu      sync.Mutex
	out     io.Writer
	needles []string
	find    *automaton

	pending []byte // not written to out yet
	scanned int    // of pending
	hits    []span // in pending, in order, not overlapping
	state   int32  // of find
	breaks  int    // in a row, up to scanned

	// What the search of the text as a terminal shows it needs besides, while it differs: from an escape
	// sequence on, until neither search has found the beginning of a value.
	split   bool
	visible int32  // the state of find
	escape  escape // up to scanned
	hidden  []span // in pending, in order, not touching each other
}

// A span is a part of pending.
type span struct{ start, end int }

// New returns a redactor that knows no values yet.
func New(out io.Writer) *Redactor {
	return &Redactor{out: out, find: newAutomaton(nil)}
}

// Add makes more values secret, from what has not been written yet on. It returns how many are too
// short to be replaced: they would be found everywhere.
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

// Write writes p with the values replaced. It never writes part of a value.
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

// Flush writes what was held back: no more comes that could complete a value.
func (r *Redactor) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.release(len(r.pending))
	r.reset()
	return err
}

// reset forgets what the searches have found the beginning of.
func (r *Redactor) reset() {
	r.state, r.breaks = root, 0
	r.split, r.visible, r.escape, r.hidden = false, root, escape{}, nil
}

// scan looks for values in what has not been looked at.
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

// scanVisible takes the next byte of the text as a terminal shows it.
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

// back returns where the last so many bytes before an index begin, line breaks not counted.
func (r *Redactor) back(index, bytes int) int {
	for bytes > 0 {
		index--
		if !isBreak(r.pending[index]) {
			bytes--
		}
	}
	return index
}

// visibleBack returns where the last so many bytes before an index begin that a terminal shows, line breaks
// not counted.
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

// hit notes a value that was found, as one with those that it overlaps.
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

// settled returns how much of pending no later byte can change.
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

// release writes the beginning of pending, with what was found in it replaced.
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
	r.hits = moved(r.hits, end)
	r.hidden = moved(slices.DeleteFunc(r.hidden, func(s span) bool { return s.end <= end }), end)
	return err
}

// moved returns spans after so many bytes of pending are gone.
func moved(spans []span, bytes int) []span {
	for i := range spans {
		spans[i].start = max(spans[i].start-bytes, 0)
		spans[i].end -= bytes
	}
	return spans
}

// replace returns the beginning of pending with a mark for each of the first hits, and their number.
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
