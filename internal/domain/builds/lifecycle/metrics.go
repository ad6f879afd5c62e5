package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// metrics count the builds and jobs that this process changes.
type metrics struct {
	builds       *prometheus.CounterVec
	buildSeconds prometheus.Histogram
	jobs         *prometheus.CounterVec
	waitSeconds  prometheus.Histogram
	runSeconds   prometheus.Histogram
}

// spans are the buckets of waits and runs, in seconds: from one second to a day.
var spans = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400}

// Measure counts builds and jobs from now on. Call it before the first change.
func (s *Service) Measure(reg prometheus.Registerer) {
	m := &metrics{
		builds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stackyard_builds_finished_total", Help: "Builds that this process finished, by state.",
		}, []string{"state"}),
		buildSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stackyard_build_seconds", Help: "Time from the start of a build to its end.", Buckets: spans,
		}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stackyard_jobs_finished_total", Help: "Command jobs that this process ended, by state.",
		}, []string{"state"}),
		waitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stackyard_job_wait_seconds", Help: "Time that jobs waited for an agent before they started.", Buckets: spans,
		}),
		runSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stackyard_job_run_seconds", Help: "Time that jobs ran.", Buckets: spans,
		}),
	}
	reg.MustRegister(m.builds, m.buildSeconds, m.jobs, m.waitSeconds, m.runSeconds)
	s.metrics = m
	s.AddEffect(m.jobsChanged)
}

// buildEnded counts a build once its end is committed.
func (m *metrics) buildEnded(q *db.Q, b *builds.Build) {
	state, began, ended := b.State, b.StartedAt, b.FinishedAt
	q.AfterCommit(func() {
		m.builds.WithLabelValues(string(state)).Inc()
		if !began.IsZero() {
			m.buildSeconds.Observe(ended.Sub(began).Seconds())
		}
	})
}

func (m *metrics) jobsChanged(q *db.Q, _ *builds.Build, changed []flow.JobChange) error {
	for _, c := range changed {
		j := *c.Job
		switch {
		case j.Type != flow.Script:
		case j.State == flow.Running && !j.RunnableAt.IsZero():
			q.AfterCommit(func() { m.waitSeconds.Observe(j.StartedAt.Sub(j.RunnableAt).Seconds()) })
		case j.State.Ended():
			q.AfterCommit(func() { m.jobEnded(j) })
		}
	}
	return nil
}

func (m *metrics) jobEnded(j flow.Job) {
	state := j.State
	if state == flow.Finished {
		state = flow.APIFailed
		if j.ExitStatus != nil && *j.ExitStatus == 0 {
			state = flow.APIPassed
		}
	}
	m.jobs.WithLabelValues(string(state)).Inc()
	if !j.StartedAt.IsZero() && !j.FinishedAt.IsZero() {
		m.runSeconds.Observe(j.FinishedAt.Sub(j.StartedAt).Seconds())
	}
}
