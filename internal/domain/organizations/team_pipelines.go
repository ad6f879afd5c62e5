package organizations

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A TeamPipeline is a team's access to one pipeline.
type TeamPipeline struct {
	*Team
	PipelineID   string
	PipelineSlug string
	AccessLevel  identity.AccessLevel
	AddedAt      time.Time

	managed bool // by whoever looks at it
}

// Permits lets a maintainer of the team change access only to pipelines that they may manage: else
// they could hand themselves any pipeline of the organization.
func (p TeamPipeline) Permits(r *route.Request, permission identity.Permission) bool {
	return p.Team.Permits(r, permission) && p.managed
}

// AddTeamPipeline gives a team access to a pipeline of its organization, one that the viewer may manage.
func (s *Service) AddTeamPipeline(ctx context.Context, t *Team, by viewer, pipelineID string, level identity.AccessLevel) (added TeamPipeline, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		team, err := lockTeam(q, t.OrganizationID, t.ID)
		if err != nil {
			return err
		}
		added, err = lockManagedPipeline(q, team.OrganizationID, by, pipelineID)
		if core.KindOf(err) == core.NotFound {
			return refuseField("pipeline_id", "must be the id of a pipeline that you may manage")
		}
		if err != nil {
			return err
		}
		added.Team, added.AccessLevel, added.AddedAt = &team, level, s.clock()
		isNew, err := insertTeamPipeline(q, added)
		if err == nil && !isNew {
			return refuseField("pipeline_id", "has already been added to the team")
		}
		return err
	})
	return added, err
}

// ChangeTeamPipeline gives a team another level of access to a pipeline it has access to.
func (s *Service) ChangeTeamPipeline(ctx context.Context, p TeamPipeline, level identity.AccessLevel) (TeamPipeline, error) {
	p.AccessLevel = level
	err := s.directory.Change(ctx, func(q *db.Q) error { return updateTeamPipeline(q, p) })
	return p, err
}

// RemoveTeamPipeline takes a team's access to a pipeline away.
func (s *Service) RemoveTeamPipeline(ctx context.Context, p TeamPipeline) error {
	return s.directory.Change(ctx, func(q *db.Q) error { return deleteTeamPipeline(q, p) })
}
