package oauth

import (
	"errors"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// liveGrant returns a grant whose user is still a member of the organization, unless the organization is
// suspended.
func liveGrant(q *db.Q, id string) (grant, error) {
	var g grant
	var suspended, member bool
	err := q.QueryRow(`
		SELECT g.id, g.application_id, g.user_id, g.organization_id, g.scopes, g.created_at, o.suspended, m.user_id IS NOT NULL
		FROM oauth_grants g
		JOIN organizations o ON o.id = g.organization_id
		LEFT JOIN memberships m ON m.organization_id = g.organization_id AND m.user_id = g.user_id
		WHERE g.id = $1`, id).
		Scan(&g.id, &g.applicationID, &g.userID, &g.organizationID, db.ToJSON(&g.scopes), db.ToTime(&g.createdAt), &suspended, &member)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return g, errorf(invalidGrant, "The authorization was revoked.")
	case err != nil:
		return g, err
	case !member:
		return g, errorf(invalidGrant, "The user does not belong to the organization any more.")
	case suspended:
		return g, errSuspended
	}
	return g, nil
}

// insertAccessToken adds an access token for the grant's organization.
func insertAccessToken(q *db.Q, g grant, t accessToken) error {
	_, err := q.Exec(`
		INSERT INTO access_tokens (id, user_id, hash, description, scopes, created_at, expires_at, grant_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.id, g.userID, t.hash, t.description, db.JSON(t.scopes), db.Micros(t.createdAt), db.Micros(t.expiresAt), g.id)
	if err != nil {
		return err
	}
	_, err = q.Exec(`
		INSERT INTO access_token_organizations (token_id, organization_id)
		VALUES ($1, $2)`, t.id, g.organizationID)
	return err
}

func insertRefreshToken(q *db.Q, t refreshToken) error {
	_, err := q.Exec(`
		INSERT INTO oauth_refresh_tokens (id, grant_id, used, created_at, expires_at)
		VALUES ($1, $2, FALSE, $3, $4)`,
		t.id, t.grantID, db.Micros(t.createdAt), db.Micros(t.expiresAt))
	return err
}

// lockRefreshToken locks and returns the refresh token with a hash, or db.ErrNoRows.
func lockRefreshToken(q *db.Q, id string) (refreshToken, error) {
	if err := q.Lock("oauth_refresh_tokens", id); err != nil {
		return refreshToken{}, err
	}
	return db.One(q, func(scan db.Scan) (t refreshToken, err error) {
		return t, scan(&t.id, &t.grantID, &t.applicationID, &t.used, db.ToTime(&t.createdAt), db.ToTime(&t.expiresAt))
	}, `
		SELECT t.id, t.grant_id, g.application_id, t.used, t.created_at, t.expires_at
		FROM oauth_refresh_tokens t
		JOIN oauth_grants g ON g.id = t.grant_id
		WHERE t.id = $1`, id)
}

// useRefreshToken marks a refresh token as used and sets when its row is removed.
func useRefreshToken(q *db.Q, id string, forget time.Time) error {
	_, err := q.Exec(`UPDATE oauth_refresh_tokens SET used = TRUE, expires_at = $2 WHERE id = $1`, id, db.Micros(forget))
	return err
}

// replaceAccessTokens shortens the lifetime of a grant's access tokens and removes expired ones.
func replaceAccessTokens(q *db.Q, grantID string, now time.Time) error {
	if _, err := q.Exec(`DELETE FROM access_tokens WHERE grant_id = $1 AND expires_at <= $2`, grantID, db.Micros(now)); err != nil {
		return err
	}
	shortened, err := q.Exec(`
		UPDATE access_tokens SET expires_at = $2
		WHERE grant_id = $1 AND (expires_at IS NULL OR expires_at > $2)`, grantID, db.Micros(now.Add(replacedLife)))
	if shortened == 0 || err != nil {
		return err
	}
	return identity.NoteChange(q)
}

// grantOfToken returns the grant and application of an access or refresh token; both are empty for a personal
// access token. An unknown hash is a NotFound error.
func grantOfToken(q *db.Q, hash string) (id, applicationID string, err error) {
	err = q.QueryRow(`
		SELECT g.id, g.application_id
		FROM oauth_refresh_tokens t
		JOIN oauth_grants g ON g.id = t.grant_id
		WHERE t.id = $1
		UNION ALL
		SELECT COALESCE(g.id, ''), COALESCE(g.application_id, '')
		FROM access_tokens t
		LEFT JOIN oauth_grants g ON g.id = t.grant_id
		WHERE t.hash = $1`, hash).Scan(&id, &applicationID)
	return id, applicationID, found(err, "No token found")
}
