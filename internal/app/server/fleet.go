package server

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/stacks"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

const (
	// fleetAge is how long figures are used again: anyone may be able to request /metrics.
	fleetAge = 10 * time.Second
	// fleetTimeout bounds reading them.
	fleetTimeout = 5 * time.Second
)

// fleet reads figures of the whole installation when metrics are collected. An idle server that is not asked reads
// nothing.
type fleet struct {
	db, results *db.DB
	clock       core.Clock
	log         *slog.Logger

	mu    sync.Mutex
	read  time.Time
	known figures
}

// figures are what the database says about the installation.
type figures struct {
	queues     map[queueLabels]queueFigures
	agents     map[string]int
	stacks     map[string]int
	deliveries int
	tasks      []tasks.Backlog
	sizes      map[string]int64
	at         time.Time
}

type queueLabels struct{ organization, cluster, queue string }

type queueFigures struct {
	waiting, reserved, running int
	oldest                     time.Time
}

// get returns figures that are at most fleetAge old, if the database answers.
func (f *fleet) get() (figures, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	if since := now.Sub(f.read); since >= 0 && since < fleetAge {
		return f.known, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetTimeout)
	defer cancel()
	known, err := f.load(ctx, now)
	if err != nil {
		f.log.Warn("read metrics failed", "error", err)
		return figures{}, false
	}
	f.read, f.known = now, known
	return known, true
}

func (f *fleet) load(ctx context.Context, now time.Time) (k figures, err error) {
	k = figures{queues: map[queueLabels]queueFigures{}, sizes: map[string]int64{}, at: now}
	err = f.db.Read(ctx, func(q *db.Q) error {
		names, err := queueNames(q)
		if err != nil {
			return err
		}
		for _, labels := range names {
			k.queues[labels] = queueFigures{}
		}
		loads, err := dispatch.Loads(q)
		if err != nil {
			return err
		}
		for _, l := range loads {
			labels := names[l.QueueID]
			c := k.queues[labels]
			c.waiting, c.reserved, c.oldest = l.Waiting, l.Reserved, l.Oldest
			k.queues[labels] = c
		}
		running, err := builds.RunningByQueue(q)
		if err != nil {
			return err
		}
		busy := 0
		for id, n := range running {
			c := k.queues[names[id]]
			c.running = n
			k.queues[names[id]] = c
			busy += n
		}
		if k.agents, err = agents.CountByState(q, busy); err != nil {
			return err
		}
		if k.stacks, err = stacks.CountByState(q, now); err != nil {
			return err
		}
		if k.deliveries, err = delivery.CountPending(q); err != nil {
			return err
		}
		k.tasks, err = tasks.Backlogs(q, now)
		return err
	})
	if err != nil {
		return k, err
	}
	if k.sizes["main"], err = f.db.Size(ctx); err == nil && f.results != f.db {
		k.sizes["results"], err = f.results.Size(ctx)
	}
	return k, err
}

// queueNames returns the labels of all queues, by id. Jobs without a queue have empty labels.
func queueNames(q *db.Q) (map[string]queueLabels, error) {
	queues, err := clusters.QueueNames(q)
	if err != nil {
		return nil, err
	}
	orgs, err := identity.Organizations(q)
	if err != nil {
		return nil, err
	}
	slugs := map[string]string{}
	for _, org := range orgs {
		slugs[org.ID] = org.Slug
	}
	names := make(map[string]queueLabels, len(queues))
	for id, n := range queues {
		names[id] = queueLabels{slugs[n.OrganizationID], n.Cluster, n.Queue}
	}
	return names, nil
}

// fleetMetrics presents figures. Unless named is set, they are added up, so that strangers who can reach /metrics learn no
// names of organizations and queues.
type fleetMetrics struct {
	fleet *fleet
	named bool
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stackyard_"+name, help, labels, nil)
}

var (
	jobsWaiting   = describe("jobs_waiting", "Jobs that wait for an agent.", "organization", "cluster", "queue")
	jobsReserved  = describe("jobs_reserved", "Waiting jobs that a stack has reserved.", "organization", "cluster", "queue")
	jobsRunning   = describe("jobs_running", "Jobs that an agent has.", "organization", "cluster", "queue")
	oldestWait    = describe("jobs_oldest_wait_seconds", "How long the oldest waiting job has waited.", "organization", "cluster", "queue")
	agentsByState = describe("agents", "Connected agents, by what they do.", "state")
	stacksByState = describe("stacks", "Registered stacks, by state.", "state")
	pending       = describe("deliveries_pending", "Notifications that wait to be sent.")
	tasksDue      = describe("tasks_due", "Background tasks that should have run by now.", "kind")
	tasksFailing  = describe("tasks_failing", "Due background tasks of which an attempt has failed.", "kind")
	tasksOldest   = describe("tasks_oldest_due_seconds", "How long the oldest due background task is overdue.", "kind")
	databaseSize  = describe("database_size_bytes", "Size of the database.", "schema")
	fleetUp       = describe("database_up", "1 if the database answered when these metrics were collected.")
)

// Describe implements prometheus.Collector.
func (m fleetMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsWaiting, jobsReserved, jobsRunning, oldestWait, agentsByState, stacksByState, pending, tasksDue, tasksFailing, tasksOldest, databaseSize, fleetUp} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m fleetMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	k, ok := m.fleet.get()
	if !ok {
		gauge(fleetUp, 0)
		return
	}
	gauge(fleetUp, 1)
	queues := k.queues
	if !m.named {
		queues = map[queueLabels]queueFigures{{}: sum(k.queues)}
	}
	for labels, c := range queues {
		values := []string{labels.organization, labels.cluster, labels.queue}
		gauge(jobsWaiting, float64(c.waiting), values...)
		gauge(jobsReserved, float64(c.reserved), values...)
		gauge(jobsRunning, float64(c.running), values...)
		wait := time.Duration(0)
		if !c.oldest.IsZero() {
			wait = max(0, k.at.Sub(c.oldest))
		}
		gauge(oldestWait, wait.Seconds(), values...)
	}
	for state, n := range k.agents {
		gauge(agentsByState, float64(n), state)
	}
	for state, n := range k.stacks {
		gauge(stacksByState, float64(n), state)
	}
	gauge(pending, float64(k.deliveries))
	for _, b := range k.tasks {
		gauge(tasksDue, float64(b.Due), b.Kind)
		gauge(tasksFailing, float64(b.Failing), b.Kind)
		gauge(tasksOldest, k.at.Sub(b.Oldest).Seconds(), b.Kind)
	}
	for schema, size := range k.sizes {
		gauge(databaseSize, float64(size), schema)
	}
}

// sum adds up the figures of queues.
func sum(queues map[queueLabels]queueFigures) (all queueFigures) {
	for c := range maps.Values(queues) {
		all.waiting += c.waiting
		all.reserved += c.reserved
		all.running += c.running
		if !c.oldest.IsZero() && (all.oldest.IsZero() || cmp.Compare(c.oldest.UnixNano(), all.oldest.UnixNano()) < 0) {
			all.oldest = c.oldest
		}
	}
	return all
}
