package dbtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"stackyard/internal/platform/db"
)

// A Tally counts the statements of a database by their text.
type Tally struct {
	mu     sync.Mutex
	counts Counts
}

// Counts are how often statements were run.
type Counts map[string]int

// NewTally returns a tally of the statements that are run from now on.
func NewTally(d *db.DB) *Tally {
	t := &Tally{counts: Counts{}}
	d.OnStatement(t.count)
	return t
}

func (t *Tally) count(text string, _ []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[text]++
}

// Take returns what was counted since it was last called, each text on one line.
func (t *Tally) Take() Counts {
	t.mu.Lock()
	counted := t.counts
	t.counts = Counts{}
	t.mu.Unlock()
	taken := Counts{}
	for text, n := range counted {
		taken[strings.Join(strings.Fields(text), " ")] += n
	}
	return taken
}

// Of takes out the statements that have one of the parts in their text, and returns how many there were.
func (c Counts) Of(parts ...string) (n int) {
	maps.DeleteFunc(c, func(text string, times int) bool {
		is := slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
		if is {
			n += times
		}
		return is
	})
	return n
}

// Total returns how many there are.
func (c Counts) Total() (n int) {
	for _, times := range c {
		n += times
	}
	return n
}

// String returns a line for each statement, the most frequent first. Long texts are cut off.
func (c Counts) String() string {
	const width = 200
	var lines strings.Builder
	texts := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), strings.Compare(a, b))
	})
	for _, text := range texts {
		fmt.Fprintf(&lines, "%7d  %.*s\n", c[text], width, text)
	}
	return lines.String()
}
