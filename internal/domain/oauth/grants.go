package oauth

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A grant records that a user authorized an application in an organization.
type grant struct {
	id             string
	applicationID  string
	userID         string
	organizationID string
	scopes         identity.Scopes
	createdAt      time.Time
}

// An AuthorizedApplication is one entry of a user's list of authorized applications: an application in an
// organization, with all its grants.
type AuthorizedApplication struct {
	Application      Application
	OrganizationID   string
	OrganizationSlug string
	OrganizationName string
	// Scopes of all grants together, by name.
	Scopes identity.Scopes
	// Approvals is the number of active grants, such as one per machine.
	Approvals int
	FirstAt   time.Time // of the active grants
	LastAt    time.Time
	// LastUsedAt is when one of the tokens was last used, approximately; zero: never.
	LastUsedAt time.Time
}

// AuthorizedApplications lists a user's authorized applications, by name of the application and the
// organization.
func (s *Service) AuthorizedApplications(ctx context.Context, userID string) (list []AuthorizedApplication, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = authorizedApplications(q, userID)
		return err
	})
	return list, err
}

// RevokeApplication revokes all grants of a user to an application in an organization with all their tokens,
// immediately in this process and within a second in others. It returns NotFound when there is no grant.
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
