package agents_test

import (
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const acmeAgents = "/v2/organizations/acme/agents"

// showAgent returns an agent as the REST API shows it.
func (w *world) showAgent(a *servertest.Agent) *response {
	w.t.Helper()
	return w.ada.Get(acmeAgents + "/" + a.ID).Want(http.StatusOK)
}

func TestAgent_ShowsAllAboutItself(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		agent := w.Register(t, fields{
			"name": "mill-1", "hostname": "mill", "os": "PRETTY_NAME=\"Debian\"\nID=debian\n", "arch": "arm64", "version": "3.75.1", "priority": "-2", "meta_data": []string{"os=linux"},
		})
		url := w.URL + acmeAgents + "/" + agent.ID
		now := w.showAgent(agent)
		servertest.WantAt(t, now, fields{
			"id": agent.ID, "url": url, "name": "mill-1", "connection_state": "connected", "hostname": "mill", "ip_address": "127.0.0.1", "user_agent": "Go-http-client/1.1",
			"version": "3.75.1", "os_id": "debian", "arch": "arm64", "queue": "default", "cluster_queue_id": servertest.AcmeQueueID, "creator.name": "boot",
			"disconnected_at": nil, "lost_at": nil, "stopped_at": nil, "job": nil, "last_job_finished_at": nil, "priority": -2, "meta_data": []string{"os=linux", "queue=default"},
			"paused": false, "paused_at": nil, "paused_by": nil, "paused_note": nil, "paused_timeout_in_minutes": nil,
		})
		for _, field := range []string{"graphql_id", "web_url", "created_at", "connected_at"} {
			if now.String(field) == "" {
				t.Errorf("%s is empty", field)
			}
		}
		job := agent.Acquire(w.job("{command: a}")).Start()
		servertest.WantAt(t, w.showAgent(agent), fields{"job.id": job.ID, "job.state": "running", "job.agent.id": agent.ID, "last_job_finished_at": nil})
		job.Finish("0")
		ended := w.showAgent(agent)
		servertest.WantAt(t, ended, fields{"job": nil})
		if ended.At("last_job_finished_at") == nil {
			t.Error("it is not shown when the last job finished")
		}
	})
}

func TestAgent_ShowsWhoMadeItsToken(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		token := w.ada.Post("/v2/organizations/acme/clusters/"+servertest.AcmeClusterID+"/tokens", fields{"description": "hers"}).Want(201).String("token")
		id := w.AsAgent(t, token).Post("/v3/register", fields{}).Want(200).String("id")
		servertest.WantAt(t, w.ada.Get(acmeAgents+"/"+id).Want(200), fields{"creator.id": servertest.AdaID, "creator.name": "Ada", "connection_state": "never_connected", "connected_at": nil})
	})
}

func TestAgents_ListThoseThatAreThere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.agent
		gone, named, stopping := w.Register(t, nil), w.Register(t, fields{"name": "special", "hostname": "box", "version": "4.0.0"}), w.Register(t, nil)
		w.AsAgent(t, servertest.AcmeAgent).Post("/v3/register", fields{}).Want(200) // never connects
		gone.Post("/v3/disconnect", nil).Want(200)
		w.ada.Put(acmeAgents+"/"+stopping.ID+"/stop", nil).Want(204)

		ids := func(query string) (ids []string) {
			t.Helper()
			var agents []struct{ ID string }
			w.ada.Get(acmeAgents + query).Want(200).JSON(&agents)
			for _, a := range agents {
				ids = append(ids, a.ID)
			}
			return ids
		}
		want := func(query string, want ...*servertest.Agent) {
			t.Helper()
			got := ids(query)
			if len(got) != len(want) {
				t.Errorf("%s lists %v, want %d agents", query, got, len(want))
				return
			}
			for i, a := range want {
				servertest.WantEqual(t, query, got[i], a.ID)
			}
		}
		want("", first, named, stopping)
		want("?name=special", named)
		want("?hostname=box", named)
		want("?hostname=bo")
		want("?version=4.0.0", named)
		want("?cluster_queue_id="+servertest.AcmeQueueID, first, named, stopping)
		want("?cluster_queue_id=" + core.NewID())
		want("?per_page=2", first, named)
		want("?per_page=2&page=2", stopping)
		w.ada.Get(acmeAgents + "?cluster_queue_id=x").Want(400)
		if link := w.ada.Get(acmeAgents + "?per_page=2&hostname=host").Header.Get("Link"); link != "" {
			t.Errorf("all of it is on one page, and yet there is %s", link)
		}
		servertest.WantEqual(t, "rival's", w.As(t, servertest.Cy).Get("/v2/organizations/rival/agents").Want(200).Len(""), 0)
		w.As(t, servertest.Cy).Get("/v2/organizations/rival/agents/"+first.ID).WantMessage(404, "No agent found")
	})
}

func TestAgent_StateFollowsWhatItDoes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		agent := w.agent
		servertest.WantAt(t, w.showAgent(agent), fields{"connection_state": "connected"})
		agent.Post("/v3/stop", fields{}).Want(200)
		agent.Post("/v3/stop", fields{}).Want(200)
		servertest.WantAt(t, w.showAgent(agent), fields{"connection_state": "stopping", "stopped_at": nil, "disconnected_at": nil})
		servertest.WantAt(t, agent.Get("/v3/ping").Want(200), fields{"action": "disconnect"})
		agent.Post("/v3/disconnect", nil).Want(200)
		ended := w.showAgent(agent)
		servertest.WantAt(t, ended, fields{"connection_state": "stopped", "lost_at": nil})
		if ended.At("stopped_at") == nil || ended.At("disconnected_at") == nil {
			t.Errorf("it is not shown when it stopped: %s", ended.Body)
		}
		other := w.Register(t, nil)
		other.Post("/v3/disconnect", nil).Want(200)
		servertest.WantAt(t, w.showAgent(other), fields{"connection_state": "disconnected", "stopped_at": nil})
	})
}

func TestStop_LetsTheJobEndUnlessForced(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/stop", fields{"force": false}).Want(204)
		servertest.WantAt(t, job.Get(job.Path("")).Want(200), fields{"state": "running"})
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/stop", fields{}).WantMessage(400, "Can only stop connected agents")
		job.Finish("0")
		servertest.WantAt(t, w.agent.Get("/v3/ping").Want(200), fields{"action": "disconnect"})
		servertest.WantAt(t, w.show(job.ID), fields{"state": "passed"})

		other := w.Register(t, nil)
		build := w.build("{command: b}", "wait", "{command: c}")
		forced := other.Acquire(build.String("jobs.0.id")).Start()
		w.ada.Put(acmeAgents+"/"+other.ID+"/stop", nil).Want(204) // force is the default
		servertest.WantAt(t, forced.Get(forced.Path("")).Want(200), fields{"state": "canceling"})
		forced.Finish("-1")
		servertest.WantAt(t, w.ada.Get(servertest.HelloPath+"/builds/"+build.String("id")), fields{"state": "canceled"})
		servertest.WantAt(t, other.Get("/v3/ping").Want(200), fields{"action": "disconnect"})
	})
}

func TestStop_GivesBackWhatTheAgentHasNotTaken(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		wantOffer(t, w.agent, job)
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/stop", fields{"force": false}).Want(204)
		servertest.WantAt(t, w.show(job), fields{"state": "scheduled"})
		wantOffer(t, w.Register(t, nil), job)
	})
}

func TestSteering_NeedsThePermission(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		bo := w.As(t, servertest.Bo)
		for _, action := range []string{"stop", "pause", "resume"} {
			bo.Put(acmeAgents+"/"+w.agent.ID+"/"+action, fields{}).Want(403)
			bo.Get(acmeAgents + "/" + w.agent.ID).Want(200)
			for _, id := range []string{core.NewID(), "nonsense"} {
				w.ada.Put(acmeAgents+"/"+id+"/"+action, fields{}).WantMessage(404, "No agent found")
			}
		}
		w.Apply("organizations: [{slug: acme, members: [{email: bo@acme.test, permissions: [stop_agents]}]}]")
		bo.Put(acmeAgents+"/"+w.agent.ID+"/pause", fields{}).Want(204)
		bo.Put(acmeAgents+"/"+w.agent.ID+"/resume", fields{}).Want(204)
		bo.Put(acmeAgents+"/"+w.agent.ID+"/stop", fields{}).Want(204)
	})
}

func TestPause_KeepsJobsAwayUntilItEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		path := acmeAgents + "/" + w.agent.ID
		w.ada.Put(path+"/resume", fields{}).WantMessage(422, "Agent is not paused")
		w.ada.Put(path+"/pause", fields{"note": "Disk is full", "timeout_in_minutes": 10}).Want(204)
		w.ada.Put(path+"/pause", fields{}).WantMessage(422, "Agent is already paused")
		servertest.WantAt(t, w.showAgent(w.agent), fields{
			"connection_state": "connected", "paused": true, "paused_by.id": servertest.AdaID, "paused_note": "Disk is full", "paused_timeout_in_minutes": 10,
		})
		job := w.job("{command: a}")
		servertest.WantAt(t, w.agent.Get("/v3/ping").Want(200), fields{"action": "pause", "message": "This agent is paused: Disk is full"})
		w.ada.Put(path+"/resume", fields{}).Want(204)
		wantOffer(t, w.agent, job)

		// The length of a pause is the default of the next one.
		taken := w.agent.Accept(job).Start()
		w.ada.Put(path+"/pause", nil).Want(204)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused_timeout_in_minutes": 10, "paused_note": nil})
		taken.Finish("0")
		servertest.WantAt(t, w.agent.Get("/v3/ping").Want(200), fields{"action": "pause"})
		for range 3 {
			w.Clock.Advance(3 * time.Minute)
			w.agent.Post("/v3/heartbeat", nil).Want(200)
			w.runDue()
		}
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused": true})
		w.Clock.Advance(time.Minute)
		w.runDue()
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused": false, "paused_at": nil})
		next := w.job("{command: b}")
		wantOffer(t, w.agent, next)
	})
}

func TestPause_IsAtFirstFiveMinutes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/pause", fields{}).Want(204)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused_timeout_in_minutes": 5})
	})
}

func TestPause_RefusesWithTheSpecifiedWords(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		path := acmeAgents + "/" + w.agent.ID + "/pause"
		for _, minutes := range []int{0, -1, 10081} {
			w.ada.Put(path, fields{"timeout_in_minutes": minutes}).WantFieldError("timeout_in_minutes", "from 1 to 10080")
		}
		w.ada.Put(path, fields{"timeout_in_minutes": "5"}).WantFieldError("timeout_in_minutes", "must be an integer")
		w.agent.Post("/v3/disconnect", nil).Want(200)
		w.ada.Put(path, fields{}).WantMessage(422, "Only connected agents may be paused")
	})
}

func TestJob_PausesAndStopsItsOwnAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		job.Post("/v3/pause", fields{"note": "Look into it", "timeout_in_minutes": 60}).Want(200)
		job.Post("/v3/pause", fields{}).Want(200)
		job.Post("/v3/pause", fields{"timeout_in_minutes": 0}).Want(422)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused": true, "paused_by": nil, "paused_timeout_in_minutes": 60})
		job.Post("/v3/resume", nil).Want(200)
		job.Post("/v3/resume", nil).Want(200)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused": false})
		job.Post("/v3/stop", fields{}).Want(200)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"connection_state": "stopping"})
		servertest.WantAt(t, job.Get(job.Path("")).Want(200), fields{"state": "running"})
		job.Post("/v3/stop", fields{"force": true}).Want(200)
		servertest.WantAt(t, job.Get(job.Path("")).Want(200), fields{"state": "canceling"})
		job.Finish("-1")
		job.Post("/v3/resume", nil).Want(401)
	})
}
