package agents_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

// ping pings and returns the id of the offered job, "" for none.
func ping(a *servertest.Agent) string {
	resp := a.Get("/v3/ping").Want(200)
	if !resp.Has("job.id") {
		return ""
	}
	return resp.String("job.id")
}

// wantOffer checks that the agent is offered a job. On a busy machine it may have to ping more than once.
func wantOffer(t testing.TB, a *servertest.Agent, job string) {
	t.Helper()
	for range 200 {
		if got := ping(a); got != "" {
			servertest.WantEqual(t, "offered", got, job)
			return
		}
	}
	t.Fatal("no job is offered")
}

func TestPing_OffersAJobUntilItIsAccepted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		servertest.WantEqual(t, "nothing to do", ping(w.agent), "")
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		servertest.WantAt(t, w.show(job), fields{"state": "assigned", "agent.id": w.agent.ID})
		wantOffer(t, w.agent, job)
		other := w.Register(t, nil)
		servertest.WantEqual(t, "offered to another", ping(other), "")
		other.Put("/v3/jobs/"+job+"/accept", nil).Want(422)
		w.agent.Accept(job)
		taken := w.agent.Accept(job) // its response was lost
		servertest.WantAt(t, w.show(job), fields{"state": "accepted"})
		servertest.WantEqual(t, "offered to another", ping(other), "")
		taken.Start()
		servertest.WantEqual(t, "offered while it runs", ping(w.agent), "")
		taken.Finish("0")
		w.agent.Put("/v3/jobs/"+job+"/accept", nil).Want(422)
		next := w.job("{command: b}")
		wantOffer(t, w.agent, next)
	})
}

// The session of an agent follows its job: neither the agent nor who holds the job is read between two jobs.
func TestPing_ReadsNoAgentBetweenTwoJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		servertest.WantEqual(t, "nothing to do", ping(w.agent), "") // opens the session
		first, second := w.job("{command: a}"), w.job("{command: b}")
		wantOffer(t, w.agent, first)
		var reads atomic.Int64
		w.DB.OnStatement(func(text string, _ []any) {
			if strings.Contains(text, "a.last_job_finished_at") || strings.Contains(text, "j.agent_id, j.state, j.finished_at") {
				reads.Add(1)
			}
		})
		running := w.agent.Accept(first)
		running.Start()
		running.Post(running.Path("/chunks?sequence=1&offset=0&size=0"), nil).Want(200)
		running.Finish("0")
		wantOffer(t, w.agent, second)
		w.DB.OnStatement(func(string, []any) {})
		servertest.WantEqual(t, "reads of the agent and its job", reads.Load(), 0)
	})
}

func TestPing_OffersAJobToOthersWhenItWasNotAcceptedInTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		w.Clock.Advance(31 * time.Second)
		w.runDue()
		servertest.WantAt(t, w.show(job), fields{"state": "scheduled", "agent": nil})
		other := w.Register(t, nil)
		wantOffer(t, other, job)
		servertest.WantEqual(t, "offered to the first", ping(w.agent), "")
		w.agent.Put("/v3/jobs/"+job+"/accept", nil).Want(422)
		other.Accept(job)
	})
}

func TestPing_MatchesTagsAndQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a, agents: {os: linux}}")
		servertest.WantEqual(t, "offered without the tag", ping(w.agent), "")
		wantOffer(t, w.Register(t, fields{"meta_data": []string{"os=linux"}}), job)
	})
}

func TestPing_ReportsThatTheQueueIsDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		queues := "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID + "/queues"
		queue := w.ada.Post(queues, fields{"key": "short-lived"}).Want(201).String("id")
		agent := w.Register(t, fields{"meta_data": []string{"queue=short-lived"}})
		servertest.WantEqual(t, "nothing to do", ping(agent), "")
		w.ada.Delete(queues + "/" + queue).Want(204)
		servertest.WantAt(t, agent.Get("/v3/ping").Want(200), fields{"action": "disconnect"})
	})
}

func TestPing_OfAnAgentThatAcquiresOffersNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		agent := w.Register(t, fields{"ignore_in_dispatches": true, "features": []string{"acquire-job"}})
		job := w.job("{command: a}")
		servertest.WantEqual(t, "offered", ping(agent), "")
		taken := agent.Acquire(job).Start()
		taken.Finish("0")
		servertest.WantEqual(t, "offered after the job", ping(agent), "")
		agent.Post("/v3/disconnect", nil).Want(200)
	})
}

func TestPing_OfAnAgentThatLeavesAfterItsJobOffersNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		w.job("{command: b}")
		job.Put(job.Path("/finish"), fields{"exit_status": "0", "ignore_agent_in_dispatches": true}).Want(200)
		servertest.WantEqual(t, "offered after the job", ping(w.agent), "")
	})
}

// The published agent drops a job when its accept fails, and pings again.
func TestPing_OffersAnAcceptedJobAgainUntilItIsStarted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		w.agent.Accept(job) // its response is lost
		for range 8 {
			w.Clock.Advance(30 * time.Second)
			w.runDue()
			servertest.WantEqual(t, "offered", ping(w.agent), job)
		}
		taken := w.agent.Accept(job).Start()
		servertest.WantEqual(t, "offered while it runs", ping(w.agent), "")
		taken.Finish("0")
		servertest.WantAt(t, w.show(job), fields{"state": "passed"})
	})
}

func TestPing_GivesUpAnAcceptedJobThatIsNeverStarted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		for range 11 {
			w.agent.Accept(job)
			w.Clock.Advance(30 * time.Second)
			w.agent.Post("/v3/heartbeat", fields{}).Want(200)
			if w.runDue(); w.show(job).String("state") != "accepted" {
				break
			}
		}
		servertest.WantAt(t, w.show(job), fields{"state": "failed", "signal_reason": "agent_lost", "detail": "Its agent did not start it in time."})
		servertest.WantEqual(t, "offered", ping(w.agent), "")
	})
}

func TestPing_GivesUpAJobThatTheAgentForgot(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		agent := w.Register(t, fields{"ignore_in_dispatches": true})
		job := agent.Acquire(w.job("{command: a}"))
		ping(agent)
		w.Clock.Advance(10 * time.Second)
		ping(agent)
		w.runDue()
		servertest.WantAt(t, w.show(job.ID), fields{"state": "accepted"})
		w.Clock.Advance(25 * time.Second)
		ping(agent)
		w.runDue()
		servertest.WantAt(t, w.show(job.ID), fields{"state": "failed", "exit_status": -1, "signal_reason": "agent_lost", "detail": "Its agent forgot the job."})
		job.Get(job.Path("")).Want(401)
	})
}
