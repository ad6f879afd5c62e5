package organizations

import (
	"context"
	"fmt"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// CreateTeam adds a team. It makes the slug from the name; the slug must be unique in the organization.
func (s *Service) CreateTeam(ctx context.Context, t Team) (Team, error) {
	t.Slug = core.Slugify(t.Name)
	if err := t.validate(); err != nil {
		return t, err
	}
	err := s.directory.Change(ctx, func(q *db.Q) error { return insertTeam(q, t) })
	if db.IsUnique(err) {
		return t, fieldError("name", fmt.Sprintf("has already been taken: there is a team with the slug %s", t.Slug))
	}
	return t, err
}

// ChangeTeam applies change to a team and saves the result if it is valid.
func (s *Service) ChangeTeam(ctx context.Context, organizationID, id string, change func(*Team)) (t Team, err error) {
	err = s.directory.Change(ctx, func(q *db.Q) error {
		if t, err = lockTeam(q, organizationID, id); err != nil {
			return err
		}
		change(&t)
		if err := t.validate(); err != nil {
			return err
		}
		return updateTeam(q, t)
	})
	return t, err
}

// DeleteTeam deletes a team and the access that its members had through it.
func (s *Service) DeleteTeam(ctx context.Context, organizationID, id string) error {
	return s.directory.Change(ctx, func(q *db.Q) error { return deleteTeam(q, organizationID, id) })
}

// EnableTeams enables teams. An organization without teams gets one with all members, so that they keep what
// they could do before: manage all pipelines and create new ones.
func (s *Service) EnableTeams(ctx context.Context, slug string, by identity.User) error {
	return s.directory.Change(ctx, func(q *db.Q) error {
		org, err := lockOrganization(q, slug)
		if err != nil {
			return err
		}
		org.Features.Teams = true
		if err := identity.UpdateOrganization(q, *org); err != nil {
			return err
		}
		teams, err := db.Count(q, `SELECT COUNT(*) FROM teams WHERE organization_id = $1`, org.ID)
		if err != nil || teams > 0 {
			return err
		}
		everyone := newTeam(org.ID, s.clock())
		everyone.Name, everyone.Slug, everyone.Default, everyone.CreatedBy = "Everyone", "everyone", true, &by
		everyone.MembersCanCreatePipelines, everyone.MembersCanCreateSuites = true, true
		if err := insertTeam(q, everyone); err != nil {
			return err
		}
		if err := addEveryone(q, everyone, identity.ManageBuildAndRead, everyone.CreatedAt); err != nil {
			return err
		}
		for _, grant := range s.onTeamsEnabled {
			if err := grant(q, everyone); err != nil {
				return err
			}
		}
		return nil
	})
}

// OnTeamsEnabled registers grant to run in the transaction that creates the team of all members, so that they keep
// access to what other packages own. It must be called before the first request.
func (s *Service) OnTeamsEnabled(grant func(q *db.Q, everyone Team) error) {
	s.onTeamsEnabled = append(s.onTeamsEnabled, grant)
}
