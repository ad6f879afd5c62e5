package agents_test

import (
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

func TestRetention_RemovesAgentsThatHaveBeenGoneForLong(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		gone, job := w.Register(t, nil), w.job("{command: a}")
		gone.Acquire(job).Start().Finish("0")
		gone.Post("/v3/disconnect", nil).Want(200)
		w.runDue()
		w.Clock.Advance(89 * 24 * time.Hour)
		w.agent.Post("/v3/heartbeat", nil).Want(200)
		w.runDue()
		w.showAgent(gone)
		w.Clock.Advance(2 * 24 * time.Hour)
		w.agent.Post("/v3/heartbeat", nil).Want(200)
		w.runDue()
		w.ada.Get(acmeAgents + "/" + gone.ID).Want(404)
		w.showAgent(w.agent)
		servertest.WantAt(t, w.show(job), fields{"state": "passed", "agent": nil})
	})
}
