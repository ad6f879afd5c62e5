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

// A StatementCounter counts the statements of a database by their text.
type StatementCounter struct {
	mu     sync.Mutex
	counts Counts
}

// Counts are the number of runs of statements, by text.
type Counts map[string]int

// CountStatements returns a counter of the statements that run from now on.
func CountStatements(d *db.DB) *StatementCounter {
	c := &StatementCounter{counts: Counts{}}
	d.OnStatement(c.count)
	return c
}

func (c *StatementCounter) count(text string, _ []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[text]++
}

// Take returns the counts since the last call, each text on one line.
func (c *StatementCounter) Take() Counts {
	c.mu.Lock()
	counted := c.counts
	c.counts = Counts{}
	c.mu.Unlock()
	taken := Counts{}
	for text, n := range counted {
		taken[strings.Join(strings.Fields(text), " ")] += n
	}
	return taken
}

// Of removes the statements that contain one of the parts, and returns how often they ran.
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

// Total returns the number of all runs.
func (c Counts) Total() (n int) {
	for _, times := range c {
		n += times
	}
	return n
}

// String returns one line per statement, the most frequent first. Long texts are truncated.
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
