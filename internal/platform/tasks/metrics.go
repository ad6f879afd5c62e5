package tasks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count attempts and measure the age of tasks by kind.
type metrics struct {
	attempts *prometheus.CounterVec
	age      *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stackyard_task_attempts_total",
			Help: "Attempts to do background tasks, by kind and result: done, failed, given up, or lost to another process.",
		}, []string{"kind", "result"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stackyard_task_age_seconds",
			Help:    "Time from when a background task was due until it was done, by kind.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 15, 60, 300, 1800, 7200, 86400},
		}, []string{"kind"}),
	}
	reg.MustRegister(m.attempts, m.age)
	return m
}

func (m metrics) count(d *Due, result string) { m.attempts.WithLabelValues(d.Kind, result).Inc() }

func (m metrics) done(d *Due, now time.Time) {
	m.count(d, "done")
	m.age.WithLabelValues(d.Kind).Observe(now.Sub(d.DueAt).Seconds())
}
