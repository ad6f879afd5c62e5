package agents_test

import (
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestMetrics_CountAgentsAndJobsByQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Post("/v2/organizations/acme/clusters/"+servertest.AcmeClusterID+"/queues", fields{"key": "gpu"}).Want(201)
		build := w.build("{command: a}", "{command: b}", "{command: g, agents: {queue: gpu}}", "wait", "{command: c}")
		w.Register(t, nil).Post("/v3/disconnect", nil).Want(200)
		w.Register(t, nil)
		w.agent.Acquire(build.String("jobs.0.id")).Start()

		token := w.AsAgent(t, servertest.AcmeAgent)
		all := token.Get("/v3/metrics").Want(200)
		servertest.WantAt(t, all, fields{
			"agents.idle": 1, "agents.busy": 1, "agents.total": 2,
			"agents.queues.default.idle": 1, "agents.queues.default.busy": 1, "agents.queues.default.total": 2, "agents.queues.gpu.total": 0,
			"jobs.scheduled": 2, "jobs.running": 1, "jobs.waiting": 1, "jobs.total": 4,
			"jobs.queues.default.scheduled": 1, "jobs.queues.default.running": 1, "jobs.queues.default.waiting": 1, "jobs.queues.default.total": 3,
			"jobs.queues.gpu.scheduled": 1, "jobs.queues.gpu.total": 1,
			"organization.slug": "acme", "cluster.name": "Default",
		})
		if all.Header.Get("Buildkite-Agent-Metrics-Poll-Duration") == "" {
			t.Error("no client is asked to slow down")
		}
		one := token.Get("/v3/metrics/queue?name=gpu").Want(200)
		servertest.WantAt(t, one, fields{"jobs.scheduled": 1, "jobs.total": 1, "agents.total": 0, "organization.slug": "acme", "cluster.name": "Default"})
		servertest.WantAt(t, token.Get("/v3/metrics/queue?name=nobody").Want(200), fields{"jobs.total": 0, "agents.total": 0})
		token.Get("/v3//metrics").Want(200)
	})
}
