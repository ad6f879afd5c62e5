package stacks

import (
	"testing"
	"time"
)

func TestNotes_TellAtOnceOfAQueueThatNobodyPolledLately(t *testing.T) {
	n := newNotes(nil, nil)
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, poll := range []struct {
		queue string
		after time.Duration
		news  bool
	}{
		{"linux", 0, true},
		{"linux", 30 * time.Second, false},
		{"mac", 40 * time.Second, true},
		{"linux", stale, false},
		{"linux", 5 * time.Minute, true},
	} {
		n.polled(poll.queue, "robot", nil, first.Add(poll.after))
		if got := len(n.news) == 1; got != poll.news {
			t.Errorf("a poll of %s after %v is news: %v", poll.queue, poll.after, got)
		}
		if poll.news { // is written
			<-n.news
			n.connected[poll.queue] = first.Add(poll.after)
		}
	}
}
