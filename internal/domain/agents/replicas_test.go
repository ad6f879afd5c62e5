package agents_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func runDue(t *testing.T, s *servertest.Server) {
	t.Helper()
	if err := s.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An agent that another replica has seen is not lost because the clocks of the replicas differ.
func TestReplicas_AgreeOnTheLastContactOfAnAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			replica := w.SkewedReplica(t, ahead)
			there := replica.Register(t, nil)
			w.Clock.Advance(4 * time.Minute)
			w.agent.Post("/v3/connect", nil).Want(200)
			there.Post("/v3/connect", nil).Want(200)
			runDue(t, w.Server)
			runDue(t, replica)
			servertest.WantAt(t, w.showAgent(there), fields{"connection_state": "connected"})
			servertest.WantAt(t, w.showAgent(w.agent), fields{"connection_state": "connected"})

			w.Clock.Advance(4 * time.Minute)
			w.agent.Post("/v3/connect", nil).Want(200)
			runDue(t, w.Server)
			servertest.WantAt(t, w.showAgent(there), fields{"connection_state": "lost"})
		}
	})
}

func TestReplicas_AgreeOnWhenATaskIsDue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		replica := w.SkewedReplica(t, time.Hour)
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/pause", fields{"timeout_in_minutes": 5}).Want(204)
		runDue(t, replica)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused": true})
		w.Clock.Advance(5 * time.Minute)
		w.agent.Post("/v3/connect", nil).Want(200)
		runDue(t, replica)
		servertest.WantAt(t, w.showAgent(w.agent), fields{"paused": false})
	})
}

// Another replica sees an agent while this one is about to mark it as lost.
func TestLost_IsNoAgentThatAnotherReplicaHasJustHeardOf(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	s := servertest.Start(t, d)
	s.Apply(servertest.World)
	agent := s.Register(t, nil)
	s.Clock.Advance(4 * time.Minute)
	restarted := s.Replica(t) // has not seen it
	s.Clock.Advance(4 * time.Minute)
	looked := make(chan error, 1)
	err := d.Write(t.Context(), func(q *db.Q) error {
		if _, err := q.Exec(`UPDATE agent_presence SET heard_at = $1`, db.Micros(s.Clock.Now())); err != nil {
			return err
		}
		go func() { looked <- restarted.RunDue(context.Background()) }()
		dbtest.AwaitBlocked(t, d, 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Error(err)
	}
	shown := s.As(t, servertest.Ada).Get(acmeAgents + "/" + agent.ID).Want(200)
	servertest.WantAt(t, shown, fields{"connection_state": "connected"})
	rows := 0
	err = d.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT count(*) FROM agent_presence WHERE agent_id = $1`, agent.ID).Scan(&rows)
	})
	if err != nil || rows != 1 {
		t.Errorf("%d rows of presence, want 1; error %v", rows, err)
	}
}

// eachIsolated is each with a replica that dies before it notifies this process of its changes.
func eachIsolated(t *testing.T, fn func(t *testing.T, w *world, replica *servertest.Server)) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.URL(t, engine)
			s := servertest.Start(t, dbtest.Open(t, url))
			s.Apply(servertest.World)
			w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), agent: s.Register(t, nil)}
			replica := servertest.Start(t, dbtest.Open(t, url), func(p *server.Parts) { p.Key, p.Blobs, p.Clock = s.Key, s.Blobs, s.Clock.Now })
			fn(t, w, replica)
		})
	}
}

func TestPoll_FindsAgentsThatAnotherReplicaPausedOrStopped(t *testing.T) {
	eachIsolated(t, func(t *testing.T, w *world, replica *servertest.Server) {
		action := func() string {
			t.Helper()
			var ping struct{ Action string }
			w.agent.Get("/v3/ping").Want(200).JSON(&ping)
			return ping.Action
		}
		for _, change := range []struct{ request, want string }{{"pause", "pause"}, {"resume", ""}, {"stop", "disconnect"}} {
			before := action()
			replica.As(t, servertest.Ada).Put(acmeAgents+"/"+w.agent.ID+"/"+change.request, fields{}).Want(204)
			servertest.WantEqual(t, "before the poll", action(), before)
			runDue(t, w.Server)
			servertest.WantEqual(t, "after the poll", action(), change.want)
		}
	})
}

// An agent with a job is offered nothing.
func TestPoll_FindsAgentsWhoseJobsEndedAtAnotherReplica(t *testing.T) {
	eachIsolated(t, func(t *testing.T, w *world, replica *servertest.Server) {
		job := w.agent.Acquire(w.job("{command: a}")).Start()
		w.agent.Get("/v3/ping").Want(200)
		replica.AsAgent(t, w.agent.Token).Put(job.Path("/finish"), fields{"exit_status": "0"}).Want(200)
		next := w.job("{command: b}")
		servertest.WantEqual(t, "before the poll", strings.TrimSpace(string(w.agent.Get("/v3/ping").Want(200).Body)), "{}")
		runDue(t, w.Server)
		wantOffer(t, w.agent, next)
	})
}

func TestPoll_RunsOneStatementForAFleetAndWakesNoAgentWithoutAChange(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const size = 50
		fleet := []*servertest.Agent{w.agent}
		for range size - 1 {
			fleet = append(fleet, w.Register(t, nil))
		}
		fleet[1].Acquire(w.job("{command: a}")).Start()
		w.ada.Put(acmeAgents+"/"+fleet[2].ID+"/pause", fields{}).Want(204)
		ping := func() {
			t.Helper()
			for _, a := range fleet {
				a.Get("/v3/ping").Want(200)
			}
		}
		ping()
		runDue(t, w.Server)
		counter := dbtest.CountStatements(w.DB)
		runDue(t, w.Server)
		asked := counter.Take()
		servertest.WantEqual(t, "statements about agents", asked.Of("FROM agents a LEFT JOIN jobs j"), 1)
		ping()
		if asked := counter.Take(); asked.Total() > 0 {
			t.Errorf("pings after a poll that found nothing ask:\n%s", asked)
		}
	})
}
