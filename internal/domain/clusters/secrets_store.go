package clusters

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noSecret = "No secret found"

const selectSecret = `
	SELECT s.id, s.cluster_id, s.key, s.description, s.policy, s.value, s.created_at, s.updated_at, s.last_read_at,
		e.id, e.email, e.name, e.created_at, ` + identity.UserColumns + `
	FROM cluster_secrets s
	LEFT JOIN users e ON e.id = s.updated_by
	LEFT JOIN users u ON u.id = s.created_by`

func scanSecret(scan db.Scan) (Secret, error) {
	var s Secret
	var updatedBy, by identity.User
	dest := []any{
		&s.ID, &s.ClusterID, &s.Key, &s.Description, &s.Policy, &s.sealed,
		db.ToTime(&s.CreatedAt), db.ToTime(&s.UpdatedAt), db.ToTime(&s.LastReadAt),
	}
	dest = append(dest, identity.UserDest(&updatedBy)...)
	err := scan(append(dest, identity.UserDest(&by)...)...)
	s.UpdatedBy, s.CreatedBy = updatedBy.OrNil(), by.OrNil()
	return s, err
}

// secretByID returns a secret of a cluster, or a NotFound error.
func secretByID(q *db.Q, clusterID, id string) (Secret, error) {
	return db.Find(q, noSecret, scanSecret, selectSecret+` WHERE s.cluster_id = $1 AND s.id = $2`, clusterID, id)
}

// listSecrets returns one page of a cluster's secrets, oldest first, and the total.
func listSecrets(q *db.Q, clusterID string, limit, offset int) ([]Secret, int, error) {
	return db.ListPage(q, scanSecret, selectSecret+` WHERE s.cluster_id = $1 ORDER BY s.created_at, s.id`,
		`SELECT COUNT(*) FROM cluster_secrets WHERE cluster_id = $1`, limit, offset, clusterID)
}

func insertSecret(q *db.Q, s Secret) error {
	_, err := secretRows.Exec(q, s.ID, `
		INSERT INTO cluster_secrets (id, cluster_id, key, value, description, policy, created_by, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		s.ID, s.ClusterID, s.Key, s.sealed, s.Description, s.Policy, s.CreatedBy.IDOrNull(), db.Micros(s.CreatedAt), db.Micros(s.UpdatedAt))
	return err
}

// updateSecret writes all columns that can change.
func updateSecret(q *db.Q, s Secret) error {
	_, err := secretRows.Exec(q, s.ID, `
		UPDATE cluster_secrets SET value = $2, description = $3, policy = $4, updated_by = $5, updated_at = $6 WHERE id = $1`,
		s.ID, s.sealed, s.Description, s.Policy, s.UpdatedBy.IDOrNull(), db.Micros(s.UpdatedAt))
	return err
}

// deleteSecret removes a secret of a cluster, or returns a NotFound error.
func deleteSecret(q *db.Q, clusterID, id string) error {
	return deleteOne(q, secretRows, id, noSecret, `DELETE FROM cluster_secrets WHERE cluster_id = $1 AND id = $2`, clusterID, id)
}
