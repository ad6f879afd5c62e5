package organizations

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// lockOrganization returns an organization and locks it until the end of the transaction.
func lockOrganization(q *db.Q, slug string) (*identity.Organization, error) {
	org, err := identity.OrganizationBySlug(q, slug)
	if err != nil {
		return nil, err
	}
	if err := q.Lock("organizations", org.ID); err != nil {
		return nil, err
	}
	return identity.OrganizationBySlug(q, slug)
}
