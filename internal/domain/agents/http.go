package agents

import (
	"slices"

	"stackyard/internal/platform/route"
)

// The paths of the agent API. Paths below JobPath and BuildPath name the job of the token and its build.
const (
	APIPath   = "/v3"
	JobPath   = APIPath + "/jobs/{job}"
	BuildPath = APIPath + "/builds/{build}"
)

// The tags under which routes are documented. JobTag is for requests of running jobs.
const (
	agentTag = "Agent API"
	JobTag   = "Agent API: jobs"
)

// Routes returns the routes of agent sessions and of agents in the REST API.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.sessionRoutes(), s.pingRoutes(), s.streamRoutes(), s.acceptRoutes(), s.jobRoutes(), s.controlRoutes(),
		s.restRoutes(), s.metricsRoutes(),
	)
}
