package buildapi

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// JobsOfAgents returns the jobs that agents have accepted and not finished, by agent id, as far as the request's
// caller can see them.
func (s *Service) JobsOfAgents(r *route.Request, q *db.Q, agentIDs []string) (map[string]*JobView, error) {
	jobs, err := s.builds.AcceptedBy(q, r.Org.ID, agentIDs)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.BuildID
	}
	found, err := builds.ByIDs(q, r.Org.ID, ids)
	if err != nil {
		return nil, err
	}
	visible, err := pipelines.ByIDs(q, pipelines.ViewerOf(r), pipelineIDs(found))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*builds.Build, len(found))
	for _, b := range found {
		byID[b.ID] = b
	}
	views := make(map[string]*JobView, len(jobs))
	for _, j := range jobs {
		b := byID[j.BuildID]
		if b == nil || visible[b.PipelineID] == nil {
			continue
		}
		view := s.jobView(r, visible[b.PipelineID], b, j)
		views[j.AgentID] = &view
	}
	return views, nil
}
