package oauth

import (
	"context"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
)

// A grant is one time that a user let an application act for them in an organization.
type grant struct {
	id             string
	applicationID  string
	userID         string
	organizationID string
	scopes         identity.Scopes
	createdAt      time.Time
}

// An AuthorizedApplication is an application that may act for a user in an organization, however often
// they have approved it: one entry of the list of authorized applications.
type AuthorizedApplication struct {
	Application      Application
	OrganizationID   string
	OrganizationSlug string
	OrganizationName string
	// Scopes are those of all approvals together, by name.
	Scopes identity.Scopes
	// Approvals is how many approvals are in effect, such as one on each machine.
	Approvals int
	FirstAt   time.Time // of the approvals that are in effect
	LastAt    time.Time
	// LastUsedAt is when a token of theirs was last used, as far as is known; zero: not yet.
	LastUsedAt time.Time
}

// AuthorizedApplications lists what may act for a user, by name of the application and the organization.
func (s *Service) AuthorizedApplications(ctx context.Context, userID string) (list []AuthorizedApplication, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = authorizedApplications(q, userID)
		return err
	})
	return list, err
}

// RevokeApplication ends all that an application may do for a user in an organization: every approval
// and every token that came of it, at once in this process and within a second in others. It is NotFound
// when the application may do nothing there.
func (s *Service) RevokeApplication(ctx context.Context, userID, applicationID, organizationID string) error {
	return s.directory.Change(ctx, func(q *db.Q) error {
		ids, err := grantsTo(q, userID, applicationID, organizationID)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return core.Errorf(core.NotFound, "This application is not authorized.")
		}
		return removeGrants(q, ids)
	})
}
