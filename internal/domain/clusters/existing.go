package clusters

import "stackyard/internal/platform/db"

// Existing returns those of the ids that are ids of clusters of an organization.
func Existing(q *db.Q, organizationID string, ids []string) ([]string, error) {
	in, arg := q.In("id", 2, ids)
	return db.Strings(q, `SELECT id FROM clusters WHERE organization_id = $1 AND deleted_at IS NULL AND `+in, organizationID, arg)
}
