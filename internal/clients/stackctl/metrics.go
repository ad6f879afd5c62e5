package stackctl

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the Prometheus metrics of a stack.
type Metrics struct {
	polls    *prometheus.CounterVec
	jobs     prometheus.Counter
	running  prometheus.Gauge
	agents   *prometheus.CounterVec
	givenUp  prometheus.Counter
	repeated prometheus.Counter
}

// NewMetrics registers the metrics of a stack.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		polls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stackyard_stack_polls_total", Help: "Lists of scheduled jobs asked for, by queue and whether the server answered."}, []string{"queue", "result"}),
		jobs:     prometheus.NewCounter(prometheus.CounterOpts{Name: "stackyard_stack_jobs_reserved_total", Help: "Jobs reserved."}),
		running:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "stackyard_stack_jobs_running", Help: "Jobs that an agent of this stack has, or is being started for."}),
		agents:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stackyard_stack_agents_ended_total", Help: "Agents that have ended, by whether they ended well."}, []string{"result"}),
		givenUp:  prometheus.NewCounter(prometheus.CounterOpts{Name: "stackyard_stack_jobs_finished_total", Help: "Jobs finished by the stack because no agent could be started."}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{Name: "stackyard_stack_calls_retried_total", Help: "Calls of the stacks API that were tried again."}),
	}
	r.MustRegister(m.polls, m.jobs, m.running, m.agents, m.givenUp, m.repeated)
	return m
}

// Retried counts a retried call; see [API.Retried].
func (m *Metrics) Retried(error) { m.repeated.Inc() }

func (m *Metrics) polled(queue string, err error) { m.polls.WithLabelValues(queue, result(err)).Inc() }

func (m *Metrics) reserved(n, running int) {
	m.jobs.Add(float64(n))
	m.running.Set(float64(running))
}

func (m *Metrics) ended(running int) { m.running.Set(float64(running)) }

func (m *Metrics) agentEnded(err error) { m.agents.WithLabelValues(result(err)).Inc() }

func (m *Metrics) gaveUp() { m.givenUp.Inc() }

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
