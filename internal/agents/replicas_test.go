package agents_test

import (
	"context"
	"testing"
	"time"

	"stackyard/internal/db"
	"stackyard/internal/db/dbtest"
	"stackyard/internal/server/servertest"
)

func runDue(t *testing.T, s *servertest.Server) {
	t.Helper()
	if err := s.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An agent that another replica hears of is not lost because that replica's machine has another time.
func TestReplicas_AgreeOnWhenAnAgentWasHeardOf(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			replica := w.SkewedReplica(t, ahead)
			there := replica.Register(t, nil)
			w.Clock.Advance(4 * time.Minute)
			w.agent.Post("/v3/connect", nil).Want(200)
			there.Post("/v3/connect", nil).Want(200)
			runDue(t, w.Server)
			runDue(t, replica)
			wantAt(t, w.agentNow(there), fields{"connection_state": "connected"})
			wantAt(t, w.agentNow(w.agent), fields{"connection_state": "connected"})

			w.Clock.Advance(4 * time.Minute)
			w.agent.Post("/v3/connect", nil).Want(200)
			runDue(t, w.Server)
			wantAt(t, w.agentNow(there), fields{"connection_state": "lost"})
		}
	})
}

func TestReplicas_AgreeOnWhenATaskIsDue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		replica := w.SkewedReplica(t, time.Hour)
		w.ada.Put(acmeAgents+"/"+w.agent.ID+"/pause", fields{"timeout_in_minutes": 5}).Want(204)
		runDue(t, replica)
		wantAt(t, w.agentNow(w.agent), fields{"paused": true})
		w.Clock.Advance(5 * time.Minute)
		w.agent.Post("/v3/connect", nil).Want(200)
		runDue(t, replica)
		wantAt(t, w.agentNow(w.agent), fields{"paused": false})
	})
}

// Another replica hears of an agent while this one is about to give it up.
func TestLost_IsNoAgentThatAnotherReplicaHasJustHeardOf(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	s := servertest.Start(t, d)
	s.Apply(servertest.World)
	agent := s.Register(t, nil)
	s.Clock.Advance(4 * time.Minute)
	restarted := s.Replica(t) // which has not heard of it
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
	wantAt(t, shown, fields{"connection_state": "connected"})
	heard := 0
	err = d.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT count(*) FROM agent_presence WHERE agent_id = $1`, agent.ID).Scan(&heard)
	})
	if err != nil || heard != 1 {
		t.Errorf("%d rows say when it was heard of, %v", heard, err)
	}
}
