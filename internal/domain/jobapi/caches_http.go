package jobapi

import (
	"net/http"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// cacheRoutes answer that there are no cache registries. Agents log the message, and jobs that do not require a
// cache continue without one.
func (s *Service) cacheRoutes() []route.Route {
	const registry = agents.APIPath + "/cache_registries/{registry}"
	routes := []route.Route{
		{Method: http.MethodGet, Path: registry},
		{Method: http.MethodPost, Path: registry + "/peek"},
		{Method: http.MethodPost, Path: registry + "/retrieve"},
		{Method: http.MethodPost, Path: registry + "/expire"},
		{Method: http.MethodPut, Path: registry + "/store"},
		{Method: http.MethodPut, Path: registry + "/commit"},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Auth, r.Summary = agents.JobTag, route.Job, "Answer that there is no cache registry"
		r.Handler = route.On(s.agents.LoadOwnJob, s.noCache)
	}
	return routes
}

func (s *Service) noCache(*route.Request, builds.Holding) (agents.EmptyView, error) {
	return agents.EmptyView{}, core.Errorf(core.NotFound, "Cache registry not found")
}
