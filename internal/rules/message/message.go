// Package message formats what error messages about user-written text have in common: quotes, positions and
// "did you mean" suggestions, and sizes for people.
package message

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Quote quotes text and shortens it if it is long.
func Quote(s string) string {
	const longest = 60
	if runes := []rune(s[:min(len(s), 4*longest)]); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return strconv.Quote(s)
}

// Position returns the line and column of a byte offset in text. Both count from 1; columns count characters.
func Position(text string, offset int) (line, column int) {
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// Suggestion returns "; did you mean …?" when a known name is close.
func Suggestion(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Nearest returns the closest known name, or "".
func Nearest(name string, known []string) string {
	const longest = 40 // longer than any known name
	if len(name) > longest {
		return ""
	}
	name = strings.ToLower(name)
	best, least := "", 2+len(name)/4
	for _, k := range known {
		if d := Distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Distance returns how many characters must be inserted, removed, replaced or swapped with their neighbor to turn a
// into b. It does not compare long texts, and returns their greatest length.
func Distance(a, b string) int {
	const longest = 100
	x, y := []rune(a), []rune(b)
	if len(x) > longest || len(y) > longest {
		return max(len(x), len(y))
	}
	var before []int // the row before last
	last := make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row := make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}
