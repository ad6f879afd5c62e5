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

	managed bool // whether the viewer can manage the pipeline
}

// Permits lets a maintainer of the team change access only to pipelines that the maintainer can manage.
// Maintainers could otherwise give themselves access to any pipeline of the organization.
func (p TeamPipeline) Permits(r *route.Request, permission identity.Permission) bool {
	return p.Team.Permits(r, permission) && p.managed
}

// Refusal returns the message for callers who lack a permission.
func (p TeamPipeline) Refusal(permission identity.Permission) string {
	return p.Team.Refusal(permission)
}

// AddTeamPipeline gives a team access to a pipeline of its organization that the viewer can manage.
func (s *Service) AddTeamPipeline(ctx context.Context, t *Team, by viewer, pipelineID string, level identity.AccessLevel) (added TeamPipeline, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		team, err := lockTeam(q, t.OrganizationID, t.ID)
		if err != nil {
			return err
		}
		added, err = lockManagedPipeline(q, team.OrganizationID, by, pipelineID)
		if core.KindOf(err) == core.NotFound {
			return fieldError("pipeline_id", "must be the id of a pipeline that you may manage")
		}
		if err != nil {
			return err
		}
		added.Team, added.AccessLevel, added.AddedAt = &team, level, s.clock()
		isNew, err := insertTeamPipeline(q, added)
		if err == nil && !isNew {
			return fieldError("pipeline_id", "has already been added to the team")
		}
		return err
	})
	return added, err
}

// ChangeTeamPipeline changes a team's access level to a pipeline.
func (s *Service) ChangeTeamPipeline(ctx context.Context, p TeamPipeline, level identity.AccessLevel) (TeamPipeline, error) {
	p.AccessLevel = level
	err := s.directory.Change(ctx, func(q *db.Q) error { return updateTeamPipeline(q, p) })
	return p, err
}

// RemoveTeamPipeline removes a team's access to a pipeline.
func (s *Service) RemoveTeamPipeline(ctx context.Context, p TeamPipeline) error {
	return s.directory.Change(ctx, func(q *db.Q) error { return deleteTeamPipeline(q, p) })
}
