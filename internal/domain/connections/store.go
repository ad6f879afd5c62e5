package connections

import (
	"errors"
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const noConnection = "No source connection found"

const selectConnection = `
	SELECT id, organization_id, host, provider, api_url, token, clone_token, app_id, installation_id, private_key, created_at, COALESCE(updated_at, created_at)
	FROM source_connections `

func scanConnection(scan db.Scan) (*Connection, error) {
	c := &Connection{}
	err := scan(&c.ID, &c.OrganizationID, &c.Host, &c.Provider, &c.APIURL, &c.sealedToken, db.ToText(&c.sealedCloneToken),
		db.ToText(&c.AppID), db.ToText(&c.InstallationID), db.ToText(&c.sealedPrivateKey), db.ToTime(&c.CreatedAt), db.ToTime(&c.UpdatedAt))
	return c, err
}

// byHost returns the connection of an organization to a host, or nil.
func byHost(q *db.Q, organizationID, host string) (*Connection, error) {
	return orNil(db.One(q, scanConnection, selectConnection+`WHERE organization_id = $1 AND host = $2`, organizationID, host))
}

// ProviderOf returns the provider of a host that an organization is connected to; empty: it is not.
func ProviderOf(q *db.Q, organizationID, host string) (string, error) {
	c, err := byHost(q, organizationID, host)
	if c == nil || err != nil {
		return "", err
	}
	return c.Provider, nil
}

// PausedUntil returns until when a host gets no requests of an organization that can wait; zero: it gets them.
func PausedUntil(q *db.Q, organizationID, host string) (until time.Time, err error) {
	err = q.QueryRow(`SELECT paused_until FROM source_connections WHERE organization_id = $1 AND host = $2`, organizationID, host).Scan(db.ToTime(&until))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return until, err
}

// Pause has all replicas wait until a time before they send a host requests that can wait. Another connection ends it.
func Pause(q *db.Q, organizationID, host string, until time.Time) error {
	_, err := q.Exec(`
		UPDATE source_connections SET paused_until = $3
		WHERE organization_id = $1 AND host = $2 AND (paused_until IS NULL OR paused_until < $3)`, organizationID, host, db.Micros(until))
	return err
}

// byID returns a connection of an organization, or a NotFound error.
func byID(q *db.Q, organizationID, id string) (*Connection, error) {
	c, err := orNil(db.One(q, scanConnection, selectConnection+`WHERE organization_id = $1 AND id = $2`, organizationID, id))
	if err == nil && c == nil {
		err = core.Errorf(core.NotFound, noConnection)
	}
	return c, err
}

func orNil(c *Connection, err error) (*Connection, error) {
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return c, err
}

// list returns a page of an organization's connections by host, and their number.
func list(q *db.Q, organizationID string, limit, offset int) (found []*Connection, total int, err error) {
	if found, err = db.All(q, scanConnection, selectConnection+`WHERE organization_id = $1 ORDER BY host LIMIT $2 OFFSET $3`, organizationID, limit, offset); err != nil {
		return nil, 0, err
	}
	total, err = count(q, organizationID)
	return found, total, err
}

func count(q *db.Q, organizationID string) (n int, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FROM source_connections WHERE organization_id = $1`, organizationID).Scan(&n)
	return n, err
}

// save writes a connection that is new or was read in this transaction. Tokens that its app created are forgotten:
// they may be of another app.
func save(q *db.Q, c *Connection) error {
	_, err := connectionRows.Exec(q, c.ID, `
		INSERT INTO source_connections (id, organization_id, host, provider, api_url, token, clone_token, app_id, installation_id, private_key, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`+
		db.OrUpdate("id", "provider, api_url, token, clone_token, app_id, installation_id, private_key, updated_at")+`, paused_until = NULL`,
		c.ID, c.OrganizationID, c.Host, c.Provider, c.APIURL, c.sealedToken, db.Text(c.sealedCloneToken),
		db.Text(c.AppID), db.Text(c.InstallationID), db.Text(c.sealedPrivateKey), db.Micros(c.CreatedAt), db.Micros(c.UpdatedAt))
	if err != nil {
		return err
	}
	if _, err = q.Exec(`DELETE FROM source_connection_tokens WHERE connection_id = $1`, c.ID); err != nil {
		return err
	}
	return events.AddWanted(q, StatusConsumer, c.OrganizationID, BuildStatusEvents)
}

func remove(q *db.Q, c *Connection) error {
	_, err := connectionRows.Exec(q, c.ID, `DELETE FROM source_connections WHERE id = $1`, c.ID)
	return err
}
