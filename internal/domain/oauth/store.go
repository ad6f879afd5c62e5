package oauth

import (
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const applicationColumns = `a.id, a.client_id, a.client_secret_hash, a.organization_id, a.name, a.confidential,
	COALESCE(a.token_expires_in, 0), a.refresh_tokens, a.enabled, a.scopes, a.redirect_uris, a.created_at`

func applicationDest(a *Application) []any {
	return []any{&a.ID, &a.ClientID, db.ToText(&a.secretHash), db.ToText(&a.OrganizationID), &a.Name, &a.Confidential,
		&a.TokenExpiresIn, &a.RefreshTokens, &a.Enabled, db.ToJSON(&a.Scopes), db.ToJSON(&a.RedirectURIs), db.ToTime(&a.CreatedAt)}
}

func scanApplication(scan db.Scan) (Application, error) {
	var a Application
	return a, scan(applicationDest(&a)...)
}

const noApplication = "No application found"

// ByClientID returns the application with a client id, or a NotFound error.
func ByClientID(q *db.Q, clientID string) (Application, error) {
	if !validClientID.MatchString(clientID) {
		return Application{}, core.Errorf(core.NotFound, noApplication) // a client id with NUL cannot be stored
	}
	return db.Find(q, noApplication, scanApplication, `SELECT `+applicationColumns+` FROM oauth_applications a WHERE a.client_id = $1`, clientID)
}

// ownApplication returns an application that an organization manages, or a NotFound error.
func ownApplication(q *db.Q, organizationID, id string) (Application, error) {
	return db.Find(q, noApplication, scanApplication, `
		SELECT `+applicationColumns+`
		FROM oauth_applications a
		WHERE a.id = $1 AND a.organization_id = $2`, id, organizationID)
}

// ownApplications returns the applications that an organization manages, by name.
func ownApplications(q *db.Q, organizationID string) ([]Application, error) {
	return db.All(q, scanApplication, `
		SELECT `+applicationColumns+`
		FROM oauth_applications a
		WHERE a.organization_id = $1
		ORDER BY a.name, a.id`, organizationID)
}

// insertApplication adds an application, unless one with the same client id exists.
func insertApplication(q *db.Q, a Application) error {
	_, err := applicationRows.Exec(q, a.ID, `
		INSERT INTO oauth_applications (id, client_id, client_secret_hash, organization_id, name, confidential,
			token_expires_in, refresh_tokens, enabled, scopes, redirect_uris, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (client_id) DO NOTHING`,
		a.ID, a.ClientID, db.Text(a.secretHash), db.Text(a.OrganizationID), a.Name, a.Confidential,
		expiry(a), a.RefreshTokens, a.Enabled, db.JSON(a.Scopes), db.JSON(a.RedirectURIs), db.Micros(a.CreatedAt))
	return err
}

// updateApplication writes all fields of an application except its id, client id and creation.
func updateApplication(q *db.Q, a Application) error {
	_, err := applicationRows.Exec(q, a.ID, `
		UPDATE oauth_applications SET client_secret_hash = $2, organization_id = $3, name = $4, confidential = $5,
			token_expires_in = $6, refresh_tokens = $7, enabled = $8, scopes = $9, redirect_uris = $10
		WHERE id = $1`,
		a.ID, db.Text(a.secretHash), db.Text(a.OrganizationID), a.Name, a.Confidential,
		expiry(a), a.RefreshTokens, a.Enabled, db.JSON(a.Scopes), db.JSON(a.RedirectURIs))
	return err
}

// expiry returns the token lifetime as stored: NULL for no expiry.
func expiry(a Application) any {
	if a.TokenExpiresIn == 0 {
		return nil
	}
	return a.TokenExpiresIn
}

// idTaken reports whether an application with the id exists.
func idTaken(q *db.Q, id string) (bool, error) {
	var taken bool
	err := q.QueryRow(`SELECT EXISTS (SELECT 1 FROM oauth_applications WHERE id = $1)`, id).Scan(&taken)
	return taken, err
}
