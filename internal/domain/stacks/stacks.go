// Package stacks serves the stacks API. A stack is an external scheduler: it lists the scheduled jobs of a
// queue, reserves some, and starts an agent for each with a token for that job.
//
// A reservation is two columns of the row in dispatch's table of runnable jobs, so that reserving a thousand
// jobs is one statement (service.go). A job acquisition token is signed and not stored (jobs.go); package
// agents verifies it when an agent registers. Calls and polls are collected in memory and written in batches
// (activity.go).
//
// The package does not limit the rate of calls: the route table does, by scope and stack.
package stacks

import (
	"slices"
	"time"

	"stackyard/internal/platform/core"
)

// A Stack is a registered external scheduler.
type Stack struct {
	ID             string
	OrganizationID string
	ClusterID      string
	Key            string
	Type           string
	QueueKey       string // as registered
	Metadata       map[string]string
	RegisteredAt   time.Time
	ConnectedAt    time.Time // time of the last call; up to flushDelay old
}

// maxKey is the maximum length of a stack's key, in bytes.
const maxKey = 80

var types = []string{"kubernetes", "elastic", "custom"}

// validKey reports whether a key is not empty and has only letters, digits, underscores and dashes.
func validKey(key string) bool {
	for _, c := range []byte(key) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return key != ""
}

// check validates a registration, without its metadata. The error is Unprocessable.
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

// disconnectedAfter is the time without a call after which a stack is disconnected. Disconnected stacks do not
// count against the organization's limit of active stacks.
const disconnectedAfter = 6 * time.Minute

// The states of a stack.
const (
	connected    = "connected"
	disconnected = "disconnected"
)

// state returns the state of the stack at a time.
func (s *Stack) state(now time.Time) string {
	if now.Sub(s.ConnectedAt) > disconnectedAfter {
		return disconnected
	}
	return connected
}
