package servertest

import (
	"net/http"
	"testing"
)

// An Agent is a registered and connected agent that speaks with its session token.
type Agent struct {
	*Client
	ID    string
	Name  string
	Token string
}

// Register registers an agent with AcmeAgent, says what fields hold beside what every agent says, and
// connects it.
func (s *Server) Register(t testing.TB, fields map[string]any) *Agent {
	t.Helper()
	said := map[string]any{"name": "%hostname-1", "hostname": "host", "os": "ID=debian\n", "arch": "amd64", "version": "3.75.1", "build": "1", "meta_data": []string{}, "features": []string{}}
	for name, value := range fields {
		said[name] = value
	}
	resp := s.AsAgent(t, AcmeAgent).Post("/v3/register", said).Want(http.StatusOK)
	a := &Agent{ID: resp.String("id"), Name: resp.String("name"), Token: resp.String("access_token")}
	a.Client = s.AsAgent(t, a.Token)
	a.Post("/v3/connect", nil).Want(http.StatusOK)
	return a
}
