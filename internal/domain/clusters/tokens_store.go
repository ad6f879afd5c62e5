package clusters

import (
	"net/netip"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noToken = "No agent token found"

const selectToken = `
	SELECT t.id, t.cluster_id, t.hash, t.description, t.allowed_ip_addresses, t.expires_at, t.created_at, ` + identity.UserColumns + `
	FROM agent_tokens t
	LEFT JOIN users u ON u.id = t.created_by`

func scanToken(scan db.Scan) (AgentToken, error) {
	var t AgentToken
	var by identity.User
	err := scan(append([]any{
		&t.ID, &t.ClusterID, &t.hash, &t.Description, db.ToJSON(&t.AllowedAddresses), db.ToTime(&t.ExpiresAt), db.ToTime(&t.CreatedAt),
	}, identity.UserDest(&by)...)...)
	t.CreatedBy = by.OrNil()
	return t, err
}

// tokenByID returns a token of a cluster, or a NotFound error.
func tokenByID(q *db.Q, clusterID, id string) (AgentToken, error) {
	return db.Find(q, noToken, scanToken, selectToken+` WHERE t.cluster_id = $1 AND t.id = $2`, clusterID, id)
}

// tokenByDescription returns the oldest token of a cluster with this description, or a NotFound error.
func tokenByDescription(q *db.Q, clusterID, description string) (AgentToken, error) {
	return db.Find(q, noToken, scanToken, selectToken+`
		WHERE t.cluster_id = $1 AND t.description = $2
		ORDER BY t.created_at, t.id
		LIMIT 1`, clusterID, description)
}

// tokenByHash returns the token of any cluster with this hash, or a NotFound error.
func tokenByHash(q *db.Q, hash string) (AgentToken, error) {
	return db.Find(q, noToken, scanToken, selectToken+` WHERE t.hash = $1`, hash)
}

// listTokens returns one page of a cluster's tokens, oldest first, and the total.
func listTokens(q *db.Q, clusterID string, limit, offset int) ([]AgentToken, int, error) {
	return db.ListPage(q, scanToken, selectToken+` WHERE t.cluster_id = $1 ORDER BY t.created_at, t.id`,
		`SELECT COUNT(*) FROM agent_tokens WHERE cluster_id = $1`, limit, offset, clusterID)
}

func insertToken(q *db.Q, t AgentToken) error {
	_, err := tokenRows.Exec(q, t.ID, `
		INSERT INTO agent_tokens (id, cluster_id, hash, description, allowed_ip_addresses, expires_at, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.ClusterID, t.hash, t.Description, addressColumn(t.AllowedAddresses), db.Micros(t.ExpiresAt),
		t.CreatedBy.IDOrNull(), db.Micros(t.CreatedAt))
	return err
}

// updateToken writes all columns that can change.
func updateToken(q *db.Q, t AgentToken) error {
	_, err := tokenRows.Exec(q, t.ID, `
		UPDATE agent_tokens SET hash = $2, description = $3, allowed_ip_addresses = $4, expires_at = $5 WHERE id = $1`,
		t.ID, t.hash, t.Description, addressColumn(t.AllowedAddresses), db.Micros(t.ExpiresAt))
	return err
}

// addressColumn returns the column value of address blocks: an empty array for none.
func addressColumn(blocks []netip.Prefix) any {
	return db.JSON(append([]netip.Prefix{}, blocks...))
}

// deleteToken removes a token of a cluster, or returns a NotFound error.
func deleteToken(q *db.Q, clusterID, id string) error {
	return deleteOne(q, tokenRows, id, noToken, `DELETE FROM agent_tokens WHERE cluster_id = $1 AND id = $2`, clusterID, id)
}
