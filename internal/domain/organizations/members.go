package organizations

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Member is a user and what they are in one organization.
type Member struct {
	User        identity.User
	Role        identity.Role
	Permissions []identity.Permission // granted one by one, sorted
	SSOMode     identity.SSOMode
	CreatedAt   time.Time // when they joined
}

// Members returns one page of an organization's members, who joined first first, and how many there are.
func (s *Service) Members(ctx context.Context, organizationID string, limit, offset int) (list []Member, total int, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		list, total, err = listMembers(q, organizationID, limit, offset)
		return err
	})
	return list, total, err
}

// Member returns one member, or a NotFound error.
func (s *Service) Member(ctx context.Context, organizationID, userID string) (member Member, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		member, err = memberByID(q, organizationID, userID)
		return err
	})
	return member, err
}

// ChangeMember gives a member another role or mode of signing in, where they are given. The last
// administrator stays one.
func (s *Service) ChangeMember(ctx context.Context, organizationID, userID string, role *identity.Role, mode *identity.SSOMode) (member Member, err error) {
	err = s.directory.Change(ctx, func(q *db.Q) error {
		if member, err = lockMember(q, organizationID, userID); err != nil {
			return err
		}
		core.SetGiven(&member.Role, role)
		core.SetGiven(&member.SSOMode, mode)
		if err := updateMember(q, organizationID, member); err != nil {
			return err
		}
		return requireAdministrator(q, organizationID, "The last administrator of an organization must stay one")
	})
	return member, err
}

// RemoveMember ends a user's access to an organization at once: the membership, the places in teams
// and clusters, and the reach of their access tokens. The last administrator stays.
func (s *Service) RemoveMember(ctx context.Context, organizationID, userID string) error {
	return s.directory.Change(ctx, func(q *db.Q) error {
		if _, err := lockMember(q, organizationID, userID); err != nil {
			return err
		}
		if err := removeMember(q, organizationID, userID); err != nil {
			return err
		}
		return requireAdministrator(q, organizationID, "The last administrator of an organization cannot be removed")
	})
}

// lockMember returns a member, and keeps the organization's memberships as they are until the end of
// the write.
func lockMember(q *db.Q, organizationID, userID string) (Member, error) {
	if err := q.Lock("organizations", organizationID); err != nil {
		return Member{}, err
	}
	return memberByID(q, organizationID, userID)
}

// requireAdministrator refuses a change of memberships that leaves nobody to undo it.
func requireAdministrator(q *db.Q, organizationID, otherwise string) error {
	n, err := countAdministrators(q, organizationID)
	if err == nil && n == 0 {
		return core.Errorf(core.Unprocessable, "%s", otherwise)
	}
	return err
}
