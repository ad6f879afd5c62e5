package agents_test

import (
	"fmt"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

// stopGrace is how long an agent can take to stop a job.
const stopGrace = 3 * time.Minute

// misbehaviors are what an agent can do repeatedly instead of stopping its job. None of them keeps the job from
// ending.
var misbehaviors = []struct {
	name string
	do   func(w *world, job *servertest.Job)
	// within is the longest time until the job ends.
	within time.Duration
}{
	{"Vanishes", func(*world, *servertest.Job) {}, stopGrace},
	{"KeepsBeating", func(w *world, _ *servertest.Job) { w.agent.Post("/v3/heartbeat", nil).Want(200) }, stopGrace},
	{"Prints", func(w *world, job *servertest.Job) {
		job.Post(job.Path("/chunks?sequence=1&offset=0&size=0"), nil).Want(200)
		job.Post(job.Path("/header_times"), fields{"header_times": fields{"0": "2026-01-02T03:04:05Z"}}).Want(200)
	}, stopGrace},
	{"LooksAndGoesOn", func(w *world, job *servertest.Job) { job.Get(job.Path("")).Want(200) }, stopGrace},
	{"AsksForTime", func(w *world, job *servertest.Job) {
		job.Put(job.Path(""), fields{"timeout": "60"}).Want(422)
		job.Put(job.Path("/promise_failure"), fields{"exit_status": 3}).Want(422)
	}, stopGrace},
	{"TakesItAgain", func(w *world, job *servertest.Job) {
		w.agent.Put(job.Path("/accept"), nil).Want(422)
		w.agent.Put(job.Path("/acquire"), nil).Want(422)
	}, stopGrace},
	{"IsCanceledAgain", func(w *world, job *servertest.Job) {
		w.ada.Put("/v2/organizations/acme/jobs/"+job.ID+"/cancel", nil)
		w.ada.Put(servertest.HelloPath+"/builds/1/cancel", nil).Want(422)
	}, stopGrace},
	{"IsStoppedWithForce", func(w *world, job *servertest.Job) {
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/stop", fields{"force": true})
	}, stopGrace},
	{"ComesAsAnother", func(w *world, job *servertest.Job) {
		w.agent = w.Register(w.t, nil)
		w.agent.Put(job.Path("/finish"), fields{"exit_status": "0"}).Want(403)
	}, stopGrace},
	{"AsksForOtherJobs", func(w *world, _ *servertest.Job) { servertest.WantEqual(w.t, "offered", ping(w.agent), "") }, time.Minute},
	{"Disconnects", func(w *world, _ *servertest.Job) { w.agent.Post("/v3/disconnect", nil).Want(200) }, 20 * time.Second},
	{"Begins", func(w *world, job *servertest.Job) { job.Put(job.Path("/start"), fields{}).Want(422) }, 20 * time.Second},
	{"Finishes", func(w *world, job *servertest.Job) { job.Finish("0") }, 20 * time.Second},
}

func TestCancel_EndsTheJobInItsTimeWhateverTheAgentDoes(t *testing.T) {
	for _, began := range []bool{false, true} {
		for _, d := range misbehaviors {
			t.Run(fmt.Sprintf("%s/began=%t", d.name, began), func(t *testing.T) {
				each(t, func(t *testing.T, w *world) {
					job := w.agent.Acquire(w.job("{command: a, timeout_in_minutes: 1}"))
					if began {
						job.Start()
					}
					w.ada.Put(servertest.HelloPath+"/builds/1/cancel", nil).Want(200)
					servertest.WantAt(t, w.show(job.ID), fields{"state": "canceling"})
					const step = 20 * time.Second
					var passed time.Duration
					for ; passed < d.within && w.show(job.ID).String("state") == "canceling"; passed += step {
						d.do(w, job)
						w.pass(step)
					}
					servertest.WantAt(t, w.show(job.ID), fields{"state": "canceled"})
					servertest.WantAt(t, w.ada.Get(servertest.HelloPath+"/builds/1").Want(200), fields{"state": "canceled"})

					// Later requests of the agent change nothing.
					if resp := job.Put(job.Path("/finish"), fields{"exit_status": "5"}); resp.Status != 422 {
						t.Errorf("a late finish: %d %s", resp.Status, resp.Body)
					}
					job.Get(job.Path("")).Want(401)
					job.Put(job.Path("/start"), fields{}).Want(401)
					w.pass(time.Hour)
					servertest.WantAt(t, w.show(job.ID), fields{"state": "canceled"})
				})
			})
		}
	}
}

func TestCancel_LeavesTheAgentItsTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		w.ada.Put("/v2/organizations/acme/jobs/"+job.ID+"/cancel", nil).Want(200)
		for range 5 {
			w.pass(30 * time.Second)
			w.agent.Post("/v3/heartbeat", nil).Want(200)
		}
		w.pass(29 * time.Second)
		servertest.WantAt(t, w.show(job.ID), fields{"state": "canceling"})
		job.Put(job.Path("/finish"), fields{"exit_status": "-1", "signal": "SIGKILL", "signal_reason": "cancel"}).Want(200)
		servertest.WantAt(t, w.show(job.ID), fields{"state": "canceled", "exit_status": -1, "signal": "SIGKILL"})
	})
}

// An agent that was late to handle a cancel gets the next job like any other.
func TestCancel_LeavesTheAgentFreeForOtherJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		w.ada.Put("/v2/organizations/acme/jobs/"+job.ID+"/cancel", nil).Want(200)
		for range 7 {
			w.agent.Post("/v3/heartbeat", nil).Want(200)
			w.pass(30 * time.Second)
		}
		servertest.WantAt(t, w.show(job.ID), fields{"state": "canceled", "detail": "Its agent did not stop it in time."})
		next := w.job("{command: b}")
		wantOffer(t, w.agent, next)
		w.agent.Accept(next).Start().Finish("0")
		servertest.WantAt(t, w.show(next), fields{"state": "passed"})
	})
}

func TestCancel_OfAJobThatIsOfferedEndsItAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		w.ada.Put("/v2/organizations/acme/jobs/"+job+"/cancel", nil).Want(200)
		servertest.WantAt(t, w.show(job), fields{"state": "canceled"})
		w.agent.Put("/v3/jobs/"+job+"/accept", nil).Want(422)
		w.agent.Put("/v3/jobs/"+job+"/acquire", nil).Want(422)
		servertest.WantEqual(t, "offered", ping(w.agent), "")
	})
}
