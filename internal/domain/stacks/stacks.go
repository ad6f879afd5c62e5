// Package stacks is the stacks API: a stack, which is anybody's scheduler, lists the scheduled jobs of a
// queue, reserves some, and hands them to agents of its own with tokens for one job each.
//
// A stack is known by its key. What it reserves stays in dispatch's table of runnable jobs, marked, so
// that reserving a thousand jobs is one statement and nobody who looks for work looks at them
// (service.go). A job acquisition token is signed and not stored (jobs.go); the agents room reads it when
// an agent registers. What happens on paths that only read, such as that a queue was polled, is
// gathered in memory and written in batches (notes.go), and shown with the rest of a job's life
// (timeline.go).
//
// Limits of calls are the route table's, by scope and stack.
package stacks

import (
	"slices"
	"time"

	"stackyard/internal/platform/core"
)

// A Stack is a scheduler of somebody's.
type Stack struct {
	ID             string
	OrganizationID string
	ClusterID      string
	Key            string
	Type           string
	QueueKey       string // as it was given
	Metadata       map[string]string
	RegisteredAt   time.Time
	ConnectedAt    time.Time // when it last called, up to flushDelay late
}

// maxKey is the length of the longest key of a stack, in bytes.
const maxKey = 80

var types = []string{"kubernetes", "elastic", "custom"}

// validKey reports whether a key has only what keys may have.
func validKey(key string) bool {
	for _, c := range []byte(key) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return key != ""
}

// check returns the first rule that a registration breaks, apart from its metadata, as an Unprocessable error.
func (s *Stack) check() error {
	switch {
	case s.Key == "":
		return core.Errorf(core.Unprocessable, "key is required")
	case len(s.Key) > maxKey:
		return core.Errorf(core.Unprocessable, "key must have at most %d bytes, not %d", maxKey, len(s.Key))
	case !validKey(s.Key):
		return core.Errorf(core.Unprocessable, "key must have only letters, digits, underscores and dashes")
	case s.Type == "":
		return core.Errorf(core.Unprocessable, "type is required")
	case !slices.Contains(types, s.Type):
		return core.Errorf(core.Unprocessable, "type must be kubernetes, elastic or custom")
	case s.QueueKey == "":
		return core.Errorf(core.Unprocessable, "queue_key is required; __default__ is the cluster's default queue")
	}
	return nil
}

// disconnectedAfter is how long a stack may go without a call before it counts as disconnected, and no longer
// against the organization's limit of active stacks.
const disconnectedAfter = 6 * time.Minute

// The states of a stack.
const (
	connected    = "connected"
	disconnected = "disconnected"
)

// state returns where the stack stands at a time.
func (s *Stack) state(now time.Time) string {
	if now.Sub(s.ConnectedAt) > disconnectedAfter {
		return disconnected
	}
	return connected
}
