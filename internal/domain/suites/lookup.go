package suites

import (
	"errors"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// ByToken returns the suite with an API token, or an Unauthorized error.
func ByToken(q *db.Q, token string) (*Suite, error) {
	s, err := db.One(q, scanSuite, `
		SELECT FALSE, `+suiteColumns+` FROM suites s WHERE s.token_hash = $1 AND s.deleted_at IS NULL`, seal.HashToken(token))
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.Unauthorized, "Authentication required. Supply the API token of a suite.")
	}
	return s, err
}

// InOrganization returns the suite of an organization with a slug, whatever the caller can see, or a NotFound error.
func InOrganization(q *db.Q, orgID, slug string) (*Suite, error) {
	s, err := db.One(q, scanSuite, `
		SELECT FALSE, `+suiteColumns+` FROM suites s WHERE s.organization_id = $1 AND s.slug = $2 AND s.deleted_at IS NULL`, orgID, slug)
	return s, found(err)
}

// Among returns a page of those suites among ids that the viewer can see, oldest first, and their number.
func Among(q *db.Q, v Viewer, ids []string, limit, offset int) ([]*Suite, int, error) {
	return listWhere(q, v, func(s *db.Statement) { s.WhereIn(q, "s.id", ids) }, limit, offset)
}

// IsDeleted reports whether there is a deleted suite with an id whose results are to be removed.
func IsDeleted(q *db.Q, id string) (deleted bool, err error) {
	err = q.QueryRow(`SELECT EXISTS (SELECT 1 FROM suites WHERE id = $1 AND deleted_at IS NOT NULL)`, id).Scan(&deleted)
	return deleted, err
}

// RemoveDeleted removes the row of a deleted suite whose results have been removed.
func RemoveDeleted(q *db.Q, id string) error {
	_, err := q.Exec(`DELETE FROM suites WHERE id = $1 AND deleted_at IS NOT NULL`, id)
	return err
}

// IDs returns the ids of all suites that are not deleted, by organization.
func IDs(q *db.Q) (map[string][]string, error) {
	ids := make(map[string][]string)
	err := db.Each(q, func(scan db.Scan) error {
		var org, id string
		err := scan(&org, &id)
		ids[org] = append(ids[org], id)
		return err
	}, `SELECT organization_id, id FROM suites WHERE deleted_at IS NULL`)
	return ids, err
}
