package dispatch

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Interrupts are channels that end a wait. They let a request wait for several things without more goroutines and
// contexts. A nil channel never ends a wait.
type Interrupts struct {
	Wakeups  <-chan struct{}
	Changed  <-chan struct{}
	Replaced <-chan struct{}
	Draining <-chan struct{}
	Timeout  <-chan time.Time
}

// An End says what ended a wait.
type End int

// The ends of waits.
const (
	Answered End = iota // the dispatcher
	Woken               // Wakeups
	Changed             // Changed
	Over                // another channel, or the context
)

// Hold waits until a job is assigned to the agent or something else ends the wait. It returns the job, or "". With
// brief set, it returns "" as soon as there is no job for the agent. A job that is being assigned when something else
// ends the wait is returned too.
func (d *Dispatcher) Hold(ctx context.Context, a Agent, brief bool, by Interrupts) (jobID string, end End, err error) {
	var w *waiter
	for w == nil {
		d.supersede(a.ID)
		if jobID, err := d.reoffer(ctx, a); jobID != "" || err != nil {
			return jobID, Answered, err
		}
		if ctx.Err() != nil {
			return "", Over, nil
		}
		w = d.enter(a, brief)
	}
	defer d.leave(w)
	select {
	case jobID = <-w.answer:
		return jobID, Answered, nil
	case <-by.Wakeups:
		end = Woken
	case <-by.Changed:
		end = Changed
	case <-by.Replaced:
		end = Over
	case <-by.Draining:
		end = Over
	case <-by.Timeout:
		end = Over
	case <-ctx.Done():
		end = Over
	}
	// If a job is being assigned to the agent right now, it gets that job.
	if !w.queue.remove(w) {
		jobID = <-w.answer
	}
	return jobID, end, nil
}

// TagsKey returns what identifies a list of tags, in any order.
func TagsKey(list []string) string {
	return strings.Join(slices.Sorted(slices.Values(list)), "\x00")
}
