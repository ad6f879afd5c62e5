package jobapi_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestUsage_IsShownWithTheJob(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		job := func() *response {
			return w.Ada.Get(servertest.HelloPath + "/builds/1/jobs/" + w.ID).Want(http.StatusOK)
		}
		for _, bad := range []fields{{}, {"source": "guess"}, {"source": "cgroup", "peak_memory_bytes": -1}, {"source": "cgroup", "disk_read_bytes": 1 << 61}} {
			w.Put(w.Path("/usage"), bad).Want(http.StatusUnprocessableEntity)
		}
		w.Put(w.Path("/usage"), fields{"source": "cgroup", "peak_memory_bytes": "many"}).Want(http.StatusBadRequest)
		for _, system := range []int{1, 1_500_000} {
			w.Put(w.Path("/usage"), fields{"source": "cgroup", "cpu_user_microseconds": 2_000_000, "cpu_system_microseconds": system, "peak_memory_bytes": 64 << 20}).Want(http.StatusOK)
		}
		servertest.WantAt(t, job(), fields{
			"resource_usage.source": "cgroup", "resource_usage.cpu_system_microseconds": 1.5e6, "resource_usage.peak_memory_bytes": float64(64 << 20), "resource_usage.network_sent_bytes": nil})
		servertest.WantAt(t, w.Ada.Get(servertest.HelloPath+"/builds/1/jobs").Want(http.StatusOK), fields{"items.0.resource_usage.cpu_user_microseconds": 2e6})
	})
}
