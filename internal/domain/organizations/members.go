package organizations

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Member is a user with the role and permissions in one organization.
type Member struct {
	User        identity.User
	Role        identity.Role
	Permissions []identity.Permission // granted individually, sorted
	SSOMode     identity.SSOMode
	CreatedAt   time.Time // when they joined
}

// Members returns one page of an organization's members, oldest membership first, and the total.
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

// ChangeMember changes a member's role and single sign-on mode where they are not nil. The last administrator
// keeps the role.
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

// RemoveMember ends a user's access to an organization at once: it deletes the membership, the team
// memberships, the maintainer entries of clusters, and the access of the user's tokens. The last administrator
// cannot be removed.
func (s *Service) RemoveMember(ctx context.Context, organizationID, userID string) error {
	return s.directory.Change(ctx, func(q *db.Q) error {
		if _, err := lockMember(q, organizationID, userID); err != nil {
			return err
		}
		if err := s.removeMember(q, organizationID, userID); err != nil {
			return err
		}
		return requireAdministrator(q, organizationID, "The last administrator of an organization cannot be removed")
	})
}

// lockMember returns a member and locks the organization's memberships until the end of the transaction.
func lockMember(q *db.Q, organizationID, userID string) (Member, error) {
	if err := q.Lock("organizations", organizationID); err != nil {
		return Member{}, err
	}
	return memberByID(q, organizationID, userID)
}

// requireAdministrator fails with message if the organization has no administrator left, who could undo the
// change.
func requireAdministrator(q *db.Q, organizationID, message string) error {
	n, err := countAdministrators(q, organizationID)
	if err == nil && n == 0 {
		return core.Errorf(core.Unprocessable, "%s", message)
	}
	return err
}
