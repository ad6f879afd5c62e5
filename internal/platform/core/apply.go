package core

import (
	"fmt"
	"slices"
	"strings"
)

// Changes are the results of applying an organization file, one line each.
type Changes struct{ Lines []string }

// Created records that something was created.
func (c *Changes) Created(kind, name string) { c.add("created", kind, name) }

// Changed records that something was changed.
func (c *Changes) Changed(kind, name string) { c.add("changed", kind, name) }

// Token records a generated token. It is never shown again.
func (c *Changes) Token(kind, name, value string) { c.add("token", kind, name, value) }

func (c *Changes) add(words ...string) {
	c.Lines = append(c.Lines, strings.Join(words, " "))
}

// Complaints are the errors in a file, by line.
type Complaints []Complaint

// A Complaint is one error in a file.
type Complaint struct {
	Line    int
	Message string
}

// Add adds an error at a line.
func (c *Complaints) Add(line int, format string, args ...any) {
	*c = append(*c, Complaint{Line: line, Message: fmt.Sprintf(format, args...)})
}

// Err returns nil when there are no complaints, else all of them in the order of the file.
func (c Complaints) Err() error {
	if len(c) == 0 {
		return nil
	}
	slices.SortStableFunc(c, func(a, b Complaint) int { return a.Line - b.Line })
	return c
}

func (c Complaints) Error() string {
	lines := make([]string, len(c))
	for i, complaint := range c {
		lines[i] = fmt.Sprintf("line %d: %s", complaint.Line, complaint.Message)
	}
	return strings.Join(lines, "\n")
}

// CheckID adds a complaint about a given id that is not a UUID.
func (c *Complaints) CheckID(line int, id string) {
	if _, ok := ParseID(id); id != "" && !ok {
		c.Add(line, "%q is not a UUID", id)
	}
}

// ComplainTwice adds complaints about entries of one list with equal keys.
func ComplainTwice[S any](c *Complaints, specs []S, kind string, key func(S) (line int, key string)) {
	first := make(map[string]int)
	for _, spec := range specs {
		line, k := key(spec)
		if at, twice := first[k]; twice {
			c.Add(line, "the %s %q is already given at line %d", kind, k, at)
			continue
		}
		first[k] = line
	}
}

// SetGiven writes a value that a file gives to dst; without one dst stays unchanged.
func SetGiven[T any](dst *T, given *T) {
	if given != nil {
		*dst = *given
	}
}
