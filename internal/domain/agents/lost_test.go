package agents_test

import (
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// pass advances the clock without requests and runs due tasks.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.Clock.Advance(d)
	w.runDue()
}

func TestLost_IsAnAgentThatIsSilent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		quiet, fine := w.agent, w.Register(t, nil)
		for range 5 {
			w.pass(30 * time.Second)
			fine.Post("/v3/heartbeat", nil).Want(200)
		}
		servertest.WantAt(t, w.showAgent(quiet), fields{"connection_state": "connected"})
		w.pass(40 * time.Second)
		w.pass(0)
		lost := w.showAgent(quiet)
		servertest.WantAt(t, lost, fields{"connection_state": "lost", "disconnected_at": nil, "job": nil})
		if lost.At("lost_at") == nil {
			t.Error("it is not shown when it was lost")
		}
		servertest.WantAt(t, w.showAgent(fine), fields{"connection_state": "connected", "lost_at": nil})
		servertest.WantAt(t, w.show(job.ID), fields{"state": "failed", "exit_status": -1, "signal_reason": "agent_lost", "detail": "Its agent was lost.", "agent.id": quiet.ID})

		// The agent comes back without its job.
		quiet.Post("/v3/heartbeat", nil).Want(200)
		servertest.WantAt(t, w.showAgent(quiet), fields{"connection_state": "connected", "lost_at": nil})
		job.Get(job.Path("")).Want(401)
		job.Put(job.Path("/finish"), fields{"exit_status": "0"}).Want(422)
		servertest.WantAt(t, w.show(job.ID), fields{"state": "failed", "exit_status": -1})
		next := w.job("{command: b}")
		wantOffer(t, quiet, next)
	})
}

func TestLost_GivesBackWhatTheAgentHasNotTaken(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		w.pass(4 * time.Minute)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"connection_state": "lost"})
		servertest.WantAt(t, w.show(job), fields{"state": "scheduled"})
	})
}

func TestLost_AgentThatWasAskedToStopLearnsOfItWhenItComesBack(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/stop", fields{}).Want(204)
		w.pass(4 * time.Minute)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"connection_state": "lost"})
		servertest.WantAt(t, w.agent.Get("/v3/ping").Want(200), fields{"action": "disconnect"})
		servertest.WantAt(t, w.showAgent(w.agent), fields{"connection_state": "stopping"})
	})
}

// Silence does not count while no server runs.
func TestLost_CountsFromTheStartOfTheServer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		err := w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE agent_presence SET heard_at = $1`, db.Micros(core.SystemClock().Add(-time.Hour)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		started := servertest.Start(t, w.DB)
		due := func() {
			t.Helper()
			if err := started.RunDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		started.Clock.Advance(2 * time.Minute)
		due()
		servertest.WantAt(t, w.show(job.ID), fields{"state": "running"})
		started.Clock.Advance(time.Minute)
		due()
		servertest.WantAt(t, w.show(job.ID), fields{"state": "failed", "signal_reason": "agent_lost"})
	})
}

func TestDisconnect_EndsTheJobOfTheAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		w.agent.Post("/v3/disconnect", nil).Want(200)
		w.runDue()
		servertest.WantAt(t, w.show(job.ID), fields{"state": "failed", "exit_status": -1, "signal_reason": "agent_lost", "detail": "Its agent disconnected."})
	})
}

// An agent can take two jobs when it requests both at the same moment.
func TestDisconnect_EndsAllJobsOfTheAgent(t *testing.T) {
	servertest.EachRunning(t, []string{"{command: a}"}, func(t *testing.T, w *servertest.RunningBuild) {
		_, second := w.CreateBuild()
		w.WantNoError(w.Builds().Acquire(t.Context(), w.OrgID, second, w.Agent.ID))
		w.WantNoError(w.Builds().Start(t.Context(), w.OrgID, second, w.Agent.ID))
		w.Agent.Post("/v3/disconnect", nil).Want(200)
		w.WantNoError(w.RunDue(t.Context()))
		for _, job := range []string{w.Job.ID, second} {
			servertest.WantAt(t, w.Ada.Get("/v2/organizations/acme/jobs/"+job).Want(200), fields{"state": "failed", "signal_reason": "agent_lost"})
		}
	})
}
