package dispatch

import "github.com/prometheus/client_golang/prometheus"

// metrics are the package's Prometheus metrics.
type metrics struct {
	waiting prometheus.Gauge
	scans   prometheus.Counter
	jobs    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stackyard_dispatch_waiting_agents",
			Help: "Agents that wait in this process for a job.",
		}),
		scans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stackyard_dispatch_looks_total",
			Help: "How often the database was asked for jobs that waiting agents could take.",
		}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stackyard_dispatch_jobs_total",
			Help: "Jobs that were to be handed to agents, by result: assigned, moved meanwhile, or failed.",
		}, []string{"result"}),
	}
	reg.MustRegister(m.waiting, m.scans, m.jobs)
	return m
}
