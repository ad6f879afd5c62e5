package queuemetrics

import (
	"slices"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/db"
)

// maxCounted bounds how many waiting jobs of a queue are counted.
const maxCounted = 100_000

// A load is how many jobs of a queue wait and run at a time.
type load struct{ waiting, running int64 }

// loadsOf returns the present loads of queues.
func loadsOf(q *db.Q, queueIDs map[string]bool) (map[string]load, error) {
	loads := make(map[string]load, len(queueIDs))
	for id := range queueIDs {
		waiting, err := dispatch.Waiting(q, id, maxCounted)
		if err != nil {
			return nil, err
		}
		running, err := builds.RunningByPipeline(q, id)
		if err != nil {
			return nil, err
		}
		l := load{waiting: int64(waiting)}
		for _, n := range running {
			l.running += int64(n)
		}
		loads[id] = l
	}
	return loads, nil
}

// notePeaks notes the loads before and after each event of a batch. Counting jobs at each event would cost too much, so
// it starts with the loads after the batch and goes back: before a job started it waited, and before it was scheduled it
// did not.
func (h histograms) notePeaks(batch []events.Event, queues map[string]string, loads map[string]load) {
	for _, e := range slices.Backward(batch) {
		queue := queues[e.JobID]
		if queue == "" {
			continue
		}
		l := loads[queue]
		at := h.of(slotAt(queue, e.CreatedAt, fine))
		at.peak(l)
		switch e.Name {
		case events.JobStarted:
			l.waiting++
			l.running = max(l.running-1, 0)
		case events.JobScheduled:
			l.waiting = max(l.waiting-1, 0)
		}
		at.peak(l)
		loads[queue] = l
	}
}

// peak notes a load, of which the highest is kept.
func (h *histogram) peak(l load) {
	h.waitingMax, h.runningMax = max(h.waitingMax, l.waiting), max(h.runningMax, l.running)
}
