package organizations

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A TeamMember is a user's membership in a team. The team decides who can change it.
type TeamMember struct {
	*Team
	User     identity.User
	Role     identity.TeamRole
	JoinedAt time.Time
}

// AddTeamMember adds a member of the organization to a team. A nil role means the default role of the team.
func (s *Service) AddTeamMember(ctx context.Context, organizationID, teamID, userID string, role *identity.TeamRole) (m TeamMember, err error) {
	err = s.directory.Change(ctx, func(q *db.Q) error {
		member, err := lockMember(q, organizationID, userID)
		if core.KindOf(err) == core.NotFound {
			return fieldError("user_id", "must be the id of a member of the organization")
		}
		if err != nil {
			return err
		}
		team, err := lockTeam(q, organizationID, teamID)
		if err != nil {
			return err
		}
		m = TeamMember{Team: &team, User: member.User, Role: team.DefaultMemberRole, JoinedAt: s.clock()}
		core.SetGiven(&m.Role, role)
		added, err := addTeamMember(q, teamID, userID, m.Role, m.JoinedAt)
		if err == nil && !added {
			return fieldError("user_id", "is already a member of the team")
		}
		return err
	})
	return m, err
}

// ChangeTeamMember changes the role of a team member.
func (s *Service) ChangeTeamMember(ctx context.Context, m TeamMember, role identity.TeamRole) (TeamMember, error) {
	m.Role = role
	err := s.directory.Change(ctx, func(q *db.Q) error { return updateTeamMember(q, m.Team.ID, m.User.ID, role) })
	return m, err
}

// RemoveTeamMember removes a user from a team.
func (s *Service) RemoveTeamMember(ctx context.Context, m TeamMember) error {
	return s.directory.Change(ctx, func(q *db.Q) error { return deleteTeamMember(q, m.Team.ID, m.User.ID) })
}
