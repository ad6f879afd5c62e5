package agents

import (
	"slices"

	"stackyard/internal/route"
)

// agentPath is where the agent API begins.
const agentPath = "/v3"

// The groups in which the routes are documented.
const (
	agentTag = "Agent API"
)

// Routes returns what agents, jobs and people ask for.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.sessionRoutes(),
	)
}
