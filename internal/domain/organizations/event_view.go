package organizations

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// EventView returns an organization as notifications show it.
func (s *Service) EventView(o *identity.Organization) any { return s.organizationView(*o) }

// TeamsOfPipelines returns the ids of the teams with access to pipelines, by pipeline.
func TeamsOfPipelines(q *db.Q, organizationID string, pipelineIDs []string) (map[string][]string, error) {
	teams := make(map[string][]string)
	in, arg := q.In("tp.pipeline_id", 2, pipelineIDs)
	err := db.Each(q, func(scan db.Scan) error {
		var pipelineID, teamID string
		err := scan(&pipelineID, &teamID)
		teams[pipelineID] = append(teams[pipelineID], teamID)
		return err
	}, `
		SELECT tp.pipeline_id, tp.team_id
		FROM team_pipelines tp
		JOIN teams t ON t.id = tp.team_id
		WHERE t.organization_id = $1 AND `+in, organizationID, arg)
	return teams, err
}
