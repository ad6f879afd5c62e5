package builds

import (
	"stackyard/internal/platform/db"
)

// AgentNames returns the names of an organization's agents, by id.
type AgentNames func(q *db.Q, orgID string, ids []string) (map[string]string, error)

// NameAgents sets how the names of agents are read. Call it before the first request.
func (s *Reader) NameAgents(names AgentNames) { s.agentNames = names }

// FillAgentNames reads the names of the agents of jobs.
func (s *Reader) FillAgentNames(q *db.Q, orgID string, jobs ...*Job) error {
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

// AcceptedBy returns the jobs that agents have accepted and not finished, with the names of the agents.
func (s *Reader) AcceptedBy(q *db.Q, orgID string, agentIDs []string) ([]*Job, error) {
	in, arg := q.In("j.agent_id", 2, agentIDs)
	jobs, err := db.All(q, scanJob, selectJob+`
	WHERE `+heldStates+` AND j.organization_id = $1 AND j.state <> 'assigned' AND `+in, orgID, arg)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	if err := describeJobs(q, jobs...); err != nil {
		return nil, err
	}
	return jobs, s.FillAgentNames(q, orgID, jobs...)
}
