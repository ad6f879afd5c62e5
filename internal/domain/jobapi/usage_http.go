package jobapi

import (
	"net/http"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/jobusage"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

func (s *Service) usageRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodPut, Path: agents.JobPath + "/usage", Tag: agents.JobTag, Auth: route.Job,
		Summary:     "Report what a job used",
		Description: "CPU time, memory, disk and network. Our own agent sends it before it finishes a job.",
		Handler:     route.OnBody(s.agents.LoadJob, s.putUsage),
	}}
}

func (s *Service) putUsage(r *route.Request, h builds.Holding, body jobusage.Usage) (agents.EmptyView, error) {
	if err := body.Check(); err != nil {
		return agents.EmptyView{}, err
	}
	return agents.EmptyView{}, s.db.Write(r.Context(), func(q *db.Q) error { return jobusage.Set(q, h.JobID, body) })
}
