package stacks

import (
	"testing"
	"time"
)

func TestActivity_WriteAPollAtOnceWhenTheLastOneIsStale(t *testing.T) {
	a := newActivity(nil, nil)
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, poll := range []struct {
		queue string
		after time.Duration
		stale bool
	}{
		{"linux", 0, true},
		{"linux", 30 * time.Second, false},
		{"mac", 40 * time.Second, true},
		{"linux", pollStaleAfter, false},
		{"linux", 5 * time.Minute, true},
	} {
		if got := a.recordPoll(poll.queue, "robot", nil, first.Add(poll.after)); got != poll.stale {
			t.Errorf("a poll of %s after %v must be written at once: %v", poll.queue, poll.after, got)
		}
		if poll.stale { // is written
			a.writtenPolls[poll.queue] = first.Add(poll.after)
		}
	}
}
