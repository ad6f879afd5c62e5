// Package queuemetrics keeps how long the jobs of each queue waited for an agent, and how many waited and ran at the same
// time, for organizations that enabled advanced queue metrics.
//
// Every job that is scheduled or starts is an event. A consumer of these events counts the job in the histogram of its queue and of
// the five minutes in which it started (histogram.go), with a few statements for each batch of events. After a week
// these histograms are merged into one per hour, and after 90 days they are removed (retention.go). So the rows of a
// queue do not grow with the number of its jobs, and percentiles of any longer interval come from merged histograms
// (http.go).
package queuemetrics

import (
	"context"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Service records and serves how long jobs wait.
type Service struct {
	db       *db.DB
	clusters *clusters.Service
	public   core.PublicURL
	clock    core.Clock
}

const (
	// consumer is the name of the cursor.
	consumer = "queue-metrics"
	// gap is the least time between two looks for events: metrics are shown a few seconds late.
	gap = 5 * time.Second
)

// counted are the events that are counted.
var counted = events.NamesOf(events.JobScheduled, events.JobStarted)

// New returns a Service that consumes events of the organizations whose settings enable it.
func New(d *db.DB, c *clusters.Service, set *settings.Service, e *events.Service, public core.PublicURL, clock core.Clock) *Service {
	s := &Service{db: d, clusters: c, public: public, clock: clock}
	set.OnChange(want)
	e.Consume(events.Consumer{Name: consumer, Gap: gap, Names: counted, Process: s.process})
	return s
}

// want has events written for an organization if its settings enable the metrics.
func want(q *db.Q, orgID string, set settings.Settings) error {
	var names events.Names
	if set.QueueMetrics.Enabled() {
		names = counted
	}
	return events.SetWanted(q, consumer, orgID, names)
}

// process counts the jobs that started, and how many waited and ran meanwhile.
func (s *Service) process(ctx context.Context, batch []events.Event) (func(*db.Q) error, error) {
	var counting []events.Event
	var queues map[string]string // by job
	var loads map[string]load    // by queue
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if counting, err = relevant(q, batch); err != nil {
			return err
		}
		ids := make([]string, len(counting))
		for i, e := range counting {
			ids[i] = e.JobID
		}
		if queues, err = builds.QueuesOf(q, ids); err != nil {
			return err
		}
		used := make(map[string]bool)
		for _, queue := range queues {
			used[queue] = true
		}
		loads, err = loadsOf(q, used)
		return err
	})
	if err != nil {
		return nil, err
	}
	added := histograms{}
	for _, e := range counting {
		if queue := queues[e.JobID]; queue != "" && e.Name == events.JobStarted {
			job := e.Facts.Job
			added.of(slotAt(queue, job.StartedAt, fine)).add(job.StartedAt.Sub(job.RunnableAt), 1)
		}
	}
	added.notePeaks(counting, queues, loads)
	return func(q *db.Q) error { return merge(q, fine, added) }, nil
}

// relevant returns the events of jobs that were scheduled or started in organizations with metrics. Other consumers may want events of
// other organizations, and other events.
func relevant(q *db.Q, batch []events.Event) (counting []events.Event, err error) {
	enabled := map[string]bool{}
	for _, e := range batch {
		job := e.Facts.Job
		started := e.Name == events.JobStarted && job != nil && !job.StartedAt.IsZero() && !job.RunnableAt.IsZero()
		if !started && e.Name != events.JobScheduled {
			continue
		}
		on, known := enabled[e.OrganizationID]
		if !known {
			set, err := settings.Of(q, e.OrganizationID)
			if err != nil {
				return nil, err
			}
			on = set.QueueMetrics.Enabled()
			enabled[e.OrganizationID] = on
		}
		if on {
			counting = append(counting, e)
		}
	}
	return counting, nil
}

// The widths of histograms.
const (
	fine   = 5 * time.Minute
	coarse = time.Hour
)

// A slot is a queue and a time at which a histogram starts, in microseconds.
type slot struct {
	queueID string
	at      int64
}

// slotAt returns the slot of a width that contains a time.
func slotAt(queueID string, at time.Time, width time.Duration) slot {
	return slot{queueID, at.Truncate(width).UnixMicro()}
}

// histograms are histograms of one width by slot.
type histograms map[slot]*histogram

// of returns the histogram of a slot, which is empty at first.
func (h histograms) of(s slot) *histogram {
	if h[s] == nil {
		h[s] = &histogram{}
	}
	return h[s]
}
