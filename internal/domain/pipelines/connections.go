package pipelines

import (
	"time"

	"stackyard/internal/platform/db"
)

// A connection stores how an organization reaches a source host. GitHub and GitHub Enterprise use the same API.
type connection struct {
	id             string
	organizationID string
	host           string // as in repository URLs: github.com
	provider       string
	apiURL         string
	sealedToken    string
	createdAt      time.Time
	// sealedCloneToken is the encrypted token that jobs clone with; empty: none.
	sealedCloneToken string
}

// sealContext binds the encrypted token to its row.
func (c connection) sealContext() string { return "source_connection:" + c.id }

// cloneSealContext binds the encrypted clone token to its row.
func (c connection) cloneSealContext() string { return "source_connection_clone:" + c.id }

// connectionTo returns the connection to a host, or [db.ErrNoRows].
func connectionTo(q *db.Q, organizationID, host string) (connection, error) {
	return db.One(q, scanConnection, `
		SELECT id, organization_id, host, provider, api_url, token, clone_token, created_at
		FROM source_connections
		WHERE organization_id = $1 AND host = $2`, organizationID, host)
}

func scanConnection(scan db.Scan) (connection, error) {
	var c connection
	err := scan(&c.id, &c.organizationID, &c.host, &c.provider, &c.apiURL, &c.sealedToken, db.ToText(&c.sealedCloneToken), db.ToTime(&c.createdAt))
	return c, err
}

// saveConnection writes a connection that is new or was read in this transaction.
func saveConnection(q *db.Q, c connection) error {
	_, err := q.Exec(`
		INSERT INTO source_connections (id, organization_id, host, provider, api_url, token, clone_token, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (id) DO UPDATE SET
			provider    = excluded.provider,
			api_url     = excluded.api_url,
			token       = excluded.token,
			clone_token = excluded.clone_token`,
		c.id, c.organizationID, c.host, c.provider, c.apiURL, c.sealedToken, db.Text(c.sealedCloneToken), db.Micros(c.createdAt))
	return err
}
