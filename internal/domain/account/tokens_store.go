package account

import (
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A StoredToken is a row of access_tokens.
type StoredToken struct {
	ID          string
	UserID      string
	Hash        string
	Description string
	Scopes      identity.Scopes
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero: never
	// GrantID is the grant of the application that has the token; "" for a token that its user created.
	GrantID string
}

// FreeTokenID returns the id of a new access token, as [db.FreeID] does.
func FreeTokenID(q *db.Q, given string) (id string, free bool, err error) {
	return db.FreeID(q, "access_tokens", given)
}

// InsertToken adds an access token for organizations.
func InsertToken(q *db.Q, t StoredToken, organizationIDs ...string) error {
	insert := func() error { return insertToken(q, t, organizationIDs) }
	if t.GrantID != "" { // the audit trail has the grant
		return insert()
	}
	return tokenRows.Change(q, t.ID, insert)
}

func insertToken(q *db.Q, t StoredToken, organizationIDs []string) error {
	_, err := q.Exec(`
		INSERT INTO access_tokens (id, user_id, hash, description, scopes, created_at, expires_at, grant_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.UserID, t.Hash, t.Description, db.JSON(t.Scopes), db.Micros(t.CreatedAt), db.Micros(t.ExpiresAt), db.Text(t.GrantID))
	if err != nil {
		return err
	}
	return AddTokenOrganizations(q, t.ID, organizationIDs...)
}

// UpdateToken writes everything about an access token that can change.
func UpdateToken(q *db.Q, t StoredToken) error {
	_, err := tokenRows.Exec(q, t.ID, `
		UPDATE access_tokens SET hash = $2, description = $3, scopes = $4, expires_at = $5 WHERE id = $1`,
		t.ID, t.Hash, t.Description, db.JSON(t.Scopes), db.Micros(t.ExpiresAt))
	return err
}

// DeleteToken removes an access token.
func DeleteToken(q *db.Q, id string) error {
	_, err := tokenRows.Exec(q, id, `DELETE FROM access_tokens WHERE id = $1`, id)
	return err
}

// AddTokenOrganizations gives an access token access to organizations.
func AddTokenOrganizations(q *db.Q, tokenID string, organizationIDs ...string) error {
	return db.InsertMany(q, `INSERT INTO access_token_organizations (token_id, organization_id)`, organizationIDs,
		func(id string) []any { return []any{tokenID, id} }, `ON CONFLICT DO NOTHING`)
}

// RemoveTokenAccess ends the access of a user's tokens to an organization.
func RemoveTokenAccess(q *db.Q, organizationID, userID string) error {
	_, err := q.Exec(`
		DELETE FROM access_token_organizations
		WHERE organization_id = $1 AND token_id IN (SELECT id FROM access_tokens WHERE user_id = $2)`, organizationID, userID)
	return err
}

const selectToken = `
	SELECT t.id, t.user_id, t.hash, t.description, t.scopes, t.expires_at, t.created_at, t.grant_id, a.token_id IS NOT NULL
	FROM access_tokens t
	LEFT JOIN access_token_organizations a ON a.token_id = t.id AND a.organization_id = $1`

func storedToken(q *db.Q, query string, args ...any) (t StoredToken, hasAccess bool, err error) {
	err = q.QueryRow(query, args...).Scan(&t.ID, &t.UserID, &t.Hash, &t.Description, db.ToJSON(&t.Scopes), db.ToTime(&t.ExpiresAt), db.ToTime(&t.CreatedAt), db.ToText(&t.GrantID), &hasAccess)
	return t, hasAccess, err
}

// TokenByHash returns the access token with a hash and whether it has access to an organization, or
// [db.ErrNoRows].
func TokenByHash(q *db.Q, organizationID, hash string) (t StoredToken, hasAccess bool, err error) {
	return storedToken(q, selectToken+` WHERE t.hash = $2`, organizationID, hash)
}

// TokenByDescription returns the oldest token with a description that the user created and that has access to
// an organization, or [db.ErrNoRows].
func TokenByDescription(q *db.Q, organizationID, userID, description string) (t StoredToken, hasAccess bool, err error) {
	return storedToken(q, selectToken+`
		WHERE a.token_id IS NOT NULL AND t.grant_id IS NULL AND t.user_id = $2 AND t.description = $3
		ORDER BY t.created_at, t.id
		LIMIT 1`, organizationID, userID, description)
}

// GrantOfToken returns the grant of the access token with a hash, "" for a token that its user created, or
// [db.ErrNoRows].
func GrantOfToken(q *db.Q, hash string) (grantID string, err error) {
	err = q.QueryRow(`SELECT grant_id FROM access_tokens WHERE hash = $1`, hash).Scan(db.ToText(&grantID))
	return grantID, err
}

// GrantOfTokenID is [GrantOfToken] for the id of a token; "" for an unknown one.
func GrantOfTokenID(q *db.Q, id string) (grantID string, err error) {
	grants, err := db.Strings(q, `SELECT grant_id FROM access_tokens WHERE id = $1`, id)
	if err != nil || len(grants) == 0 {
		return "", err
	}
	return grants[0], nil
}

// ExpireGrantTokens removes the expired access tokens of a grant, and lets the others expire at a time. It
// reports whether that changed any.
func ExpireGrantTokens(q *db.Q, grantID string, now, at time.Time) (changed bool, err error) {
	if _, err := q.Exec(`DELETE FROM access_tokens WHERE grant_id = $1 AND expires_at <= $2`, grantID, db.Micros(now)); err != nil {
		return false, err
	}
	n, err := q.Exec(`
		UPDATE access_tokens SET expires_at = $2
		WHERE grant_id = $1 AND (expires_at IS NULL OR expires_at > $2)`, grantID, db.Micros(at))
	return n > 0, err
}
