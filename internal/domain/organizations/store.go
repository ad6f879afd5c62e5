package organizations

import (
	"errors"

	"stackyard/internal/platform/core"
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

// found converts ErrNoRows into a NotFound error.
func found(err error, message string) error {
	if errors.Is(err, db.ErrNoRows) {
		return core.Errorf(core.NotFound, "%s", message)
	}
	return err
}

func count(q *db.Q, query string, args ...any) (n int, err error) {
	err = q.QueryRow(query, args...).Scan(&n)
	return n, err
}
