package oauth

import (
	"errors"
	"time"

	"stackyard/internal/domain/account"
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
	shortened, err := account.ExpireGrantTokens(q, grantID, now, now.Add(replacedLife))
	if !shortened || err != nil {
		return err
	}
	return identity.NoteChange(q)
}

// grantOfToken returns the grant and application of an access or refresh token; both are empty for a personal
// access token. An unknown hash is a NotFound error.
func grantOfToken(q *db.Q, hash string) (id, applicationID string, err error) {
	err = q.QueryRow(`SELECT grant_id FROM oauth_refresh_tokens WHERE id = $1`, hash).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		id, err = account.GrantOfToken(q, hash)
	}
	if err == nil && id != "" {
		err = q.QueryRow(`SELECT application_id FROM oauth_grants WHERE id = $1`, id).Scan(&applicationID)
	}
	return id, applicationID, db.OrNotFound(err, "No token found")
}

// RevokeAccessToken removes an access token. With a token of an application, the grant ends and all its tokens.
func RevokeAccessToken(q *db.Q, tokenID string) error {
	grantID, err := account.GrantOfTokenID(q, tokenID)
	if err != nil {
		return err
	}
	if grantID != "" {
		if _, err := grantRows.Exec(q, grantID, `DELETE FROM oauth_grants WHERE id = $1`, grantID); err != nil {
			return err
		}
	}
	return account.DeleteToken(q, tokenID)
}

// RemoveGrants ends the access of all applications that a user authorized for an organization.
func RemoveGrants(q *db.Q, organizationID, userID string) error {
	_, err := q.Exec(`DELETE FROM oauth_grants WHERE organization_id = $1 AND user_id = $2`, organizationID, userID)
	return err
}
