package agents

import (
	"slices"

	"stackyard/internal/platform/route"
)

// agentPath is where the agent API begins; below jobPath and ofBuildPath a job speaks for itself and of
// its build.
const (
	agentPath   = "/v3"
	jobPath     = agentPath + "/jobs/{job}"
	ofBuildPath = agentPath + "/builds/{build}"
)

// The groups in which the routes are documented.
const (
	agentTag = "Agent API"
	jobTag   = "Agent API: jobs"
)

// Routes returns what agents, jobs and people ask for.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.sessionRoutes(), s.pingRoutes(), s.streamRoutes(), s.acceptRoutes(), s.jobRoutes(), s.steerRoutes(),
		s.metaDataRoutes(), s.annotationRoutes(), s.uploadRoutes(), s.stepRoutes(), s.artifactRoutes(), s.fileRoutes(), s.secretRoutes(), s.identityRoutes(), s.cacheRoutes(), s.logRoutes(),
		s.restRoutes(), s.metricsRoutes(),
	)
}
