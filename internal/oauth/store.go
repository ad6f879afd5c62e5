package oauth

import (
	"errors"

	"stackyard/internal/core"
	"stackyard/internal/db"
)

// ByClientID returns the application with a client id, or a NotFound error.
func ByClientID(q *db.Q, clientID string) (Application, error) {
	a, err := db.One(q, scanApplication, `
		SELECT id, client_id, client_secret_hash, name, confidential, COALESCE(token_expires_in, 0),
			refresh_tokens, enabled, scopes, created_at
		FROM oauth_applications
		WHERE client_id = $1`, clientID)
	if errors.Is(err, db.ErrNoRows) {
		return a, core.Errorf(core.NotFound, "No application found")
	}
	return a, err
}

func scanApplication(scan db.Scan) (Application, error) {
	var a Application
	return a, scan(&a.ID, &a.ClientID, db.ToText(&a.SecretHash), &a.Name, &a.Confidential, &a.TokenExpiresIn,
		&a.RefreshTokens, &a.Enabled, db.ToJSON(&a.Scopes), db.ToTime(&a.CreatedAt))
}

// insertApplication adds an application, unless another process has added one with its client id.
func insertApplication(q *db.Q, a Application) error {
	_, err := q.Exec(`
		INSERT INTO oauth_applications (id, client_id, client_secret_hash, name, confidential, token_expires_in,
			refresh_tokens, enabled, scopes, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (client_id) DO NOTHING`,
		a.ID, a.ClientID, db.Text(a.SecretHash), a.Name, a.Confidential, expiry(a),
		a.RefreshTokens, a.Enabled, db.JSON(a.Scopes), db.Micros(a.CreatedAt))
	return err
}

// updateApplication writes everything about an application but how it is known and came to be.
func updateApplication(q *db.Q, a Application) error {
	_, err := q.Exec(`
		UPDATE oauth_applications SET client_secret_hash = $2, name = $3, confidential = $4, token_expires_in = $5,
			refresh_tokens = $6, enabled = $7, scopes = $8
		WHERE id = $1`,
		a.ID, db.Text(a.SecretHash), a.Name, a.Confidential, expiry(a), a.RefreshTokens, a.Enabled, db.JSON(a.Scopes))
	return err
}

// expiry returns how long tokens live as the column holds it.
func expiry(a Application) any {
	if a.TokenExpiresIn == 0 {
		return nil
	}
	return a.TokenExpiresIn
}

// idTaken reports whether an application has an id.
func idTaken(q *db.Q, id string) (bool, error) {
	var taken bool
	err := q.QueryRow(`SELECT EXISTS (SELECT 1 FROM oauth_applications WHERE id = $1)`, id).Scan(&taken)
	return taken, err
}
