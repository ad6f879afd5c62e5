package builds

import (
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// JobView is a job as the API shows it, wherever it shows one.
type JobView = jobView

// AgentNames returns the names of agents of an organization, by their ids.
type AgentNames func(q *db.Q, orgID string, ids []string) (map[string]string, error)

// NameAgents tells how the agents that jobs show are named. It is called before there are any.
func (s *Service) NameAgents(names AgentNames) { s.agentNames = names }

// nameAgents gives jobs of an organization the names of their agents.
func (s *Service) nameAgents(q *db.Q, orgID string, jobs ...*Job) error {
	var ids []string
	for _, j := range jobs {
		if j.AgentID != "" {
			ids = append(ids, j.AgentID)
		}
	}
	if len(ids) == 0 || s.agentNames == nil {
		return nil
	}
	names, err := s.agentNames(q, orgID, ids)
	for _, j := range jobs {
		j.agentName = names[j.AgentID]
	}
	return err
}

// JobsOfAgents returns the jobs that agents have taken and not ended, by the ids of the agents, as far as
// the request's caller may see them.
func (s *Service) JobsOfAgents(r *route.Request, q *db.Q, agentIDs []string) (map[string]*JobView, error) {
	in, arg := q.In("j.agent_id", 2, agentIDs)
	jobs, err := db.All(q, scanJob, selectJob+`
	WHERE `+heldStates+` AND j.organization_id = $1 AND j.state <> 'assigned' AND `+in, r.Org.ID, arg)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	if err := describeJobs(q, jobs...); err != nil {
		return nil, err
	}
	if err := s.nameAgents(q, r.Org.ID, jobs...); err != nil {
		return nil, err
	}
	var of db.Statement
	of.Where("b.organization_id = %s", r.Org.ID)
	of.WhereIn(q, "b.id", distinct(jobs, func(j *Job) string { return j.BuildID }))
	builds, err := listBuilds(q, &of, newestOfAll, len(jobs), 0)
	if err != nil {
		return nil, err
	}
	visible, err := pipelines.ByIDs(q, pipelines.ViewerOf(r), distinct(builds, func(b *Build) string { return b.PipelineID }))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*Build, len(builds))
	for _, b := range builds {
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
