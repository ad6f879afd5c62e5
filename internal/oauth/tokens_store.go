package oauth

import (
	"errors"

	"stackyard/internal/db"
)

// liveGrant returns a grant that still holds: its user belongs to the organization, which is not
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

// insertAccessToken adds a token of a grant, which reaches the grant's organization.
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
