package agents_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/events"
)

// wantAgentEvents fails the test unless these events were written since it was called last.
func wantAgentEvents(t testing.TB, s *servertest.Server, agentID string, want ...string) []events.Event {
	t.Helper()
	var got []string
	list := s.Events(t)
	for _, e := range list {
		text := string(e.Name)
		if e.Facts.Agent != nil {
			text += " " + e.Facts.Agent.State
		}
		if e.Facts.BlockedIP != "" {
			text += " " + e.Facts.BlockedIP
		}
		got = append(got, text)
		if e.AgentID != agentID || e.ClusterID != servertest.AcmeClusterID || e.BuildID != "" {
			t.Errorf("%s is about agent %q, cluster %q, build %q", e.Name, e.AgentID, e.ClusterID, e.BuildID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
	return list
}

func TestEvents_OfConnections(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t)
		a := s.Register(t, nil)
		a.Post("/v3/connect", nil).Want(200)
		wantAgentEvents(t, s, a.ID, "agent.connected connected")
		s.Clock.Advance(agents.DefaultLostAfter + time.Minute)
		runDue(t, s)
		lost := wantAgentEvents(t, s, a.ID, "agent.lost lost")
		servertest.WantEqual(t, "lost at", lost[0].Facts.Agent.LostAt, s.Clock.Now())
		a.Post("/v3/heartbeat", nil).Want(200)
		wantAgentEvents(t, s, a.ID, "agent.connected connected")
		a.Post("/v3/disconnect", nil).Want(200)
		a.Post("/v3/disconnect", nil).Want(200)
		wantAgentEvents(t, s, a.ID, "agent.disconnected disconnected")
	})
}

func TestEvents_OfStops(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.RecordEvents(t)
		a := s.Register(t, nil)
		s.Events(t)
		s.As(t, servertest.Ada).Put("/v2/organizations/acme/agents/"+a.ID+"/stop", nil).Want(204)
		wantAgentEvents(t, s, a.ID, "agent.stopping stopping")
		a.Post("/v3/disconnect", nil).Want(200)
		wantAgentEvents(t, s, a.ID, "agent.stopped stopped")
	})
}

func TestEvents_OfAddressesThatATokenDoesNotAllow(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		tokens := "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID + "/tokens"
		token := ada.Post(tokens, fields{"description": "bound", "allowed_ip_addresses": "10.0.0.0/8"}).Want(201)
		s.RecordEvents(t)
		register := func(from string) *response {
			return s.AsAgent(t, token.String("token")).With("X-Forwarded-For", from).Post("/v3/register", nil)
		}
		for range 3 { // an agent that tries again and again
			register("192.0.2.1").Want(401)
		}
		refused := wantAgentEvents(t, s, "", "cluster_token.registration_blocked 192.0.2.1")
		servertest.WantEqual(t, "token", refused[0].Facts.TokenID, token.String("id"))
		s.Clock.Advance(time.Minute)
		register("192.0.2.1").Want(401)
		wantAgentEvents(t, s, "", "cluster_token.registration_blocked 192.0.2.1")

		in, out := register("10.1.1.1").Want(200), register("10.2.2.2").Want(200)
		for _, a := range []*response{in, out} {
			s.AsAgent(t, a.String("access_token")).Post("/v3/connect", nil).Want(200)
		}
		s.Events(t)
		ada.Patch(tokens+"/"+token.String("id"), fields{"allowed_ip_addresses": "10.1.0.0/16"}).Want(200)
		runDue(t, s)
		blocked := wantAgentEvents(t, s, out.String("id"), "agent.blocked stopping 10.2.2.2", "agent.stopping stopping")
		servertest.WantEqual(t, "token", blocked[0].Facts.TokenID, token.String("id"))
		ada.Patch(tokens+"/"+token.String("id"), fields{"description": "still bound"}).Want(200)
		runDue(t, s)
		wantAgentEvents(t, s, "")
	})
}
