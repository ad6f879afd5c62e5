package organizations

import "stackyard/internal/platform/db"

// ExistingTeams returns those of the ids that are ids of teams of an organization.
func ExistingTeams(q *db.Q, organizationID string, ids []string) ([]string, error) {
	in, arg := q.In("id", 2, ids)
	return db.Strings(q, `SELECT id FROM teams WHERE organization_id = $1 AND `+in, organizationID, arg)
}
