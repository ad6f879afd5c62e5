package organizations

import (
	"errors"
	"maps"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// lockOrganization returns an organization and locks it until the end of the transaction.
func lockOrganization(q *db.Q, slug string) (*identity.Organization, error) {
	org, err := identity.OrganizationBySlug(q, slug)
	if err != nil {
		return nil, err
	}
	if err := q.Lock("organizations", org.ID); err != nil {
		return nil, err
	}
	return identity.OrganizationBySlug(q, slug)
}

func userByEmail(q *db.Q, email string) (identity.User, error) {
	return db.One(q, identity.ScanUser, `SELECT `+identity.UserColumns+` FROM users u WHERE u.email = $1`, email)
}

func insertUser(q *db.Q, u identity.User, passwordHash string) error {
	_, err := q.Exec(`
		INSERT INTO users (id, email, name, password_hash, created_at)
		VALUES ($1, $2, $3, $4, $5)`,
		u.ID, u.Email, u.Name, db.Text(passwordHash), db.Micros(u.CreatedAt))
	return err
}

func renameUser(q *db.Q, u identity.User) error {
	_, err := q.Exec(`UPDATE users SET name = $2 WHERE id = $1`, u.ID, u.Name)
	return err
}

// setPasswordHash replaces a user's password, which ends all sessions of the user.
func setPasswordHash(q *db.Q, userID, hash string) error {
	if _, err := q.Exec(`UPDATE users SET password_hash = $2 WHERE id = $1`, userID, hash); err != nil {
		return err
	}
	_, err := q.Exec(`DELETE FROM sessions WHERE user_id = $1`, userID)
	return err
}

// passwordHashes returns the stored password hashes of users by email; "" means no password.
func passwordHashes(q *db.Q, emails map[string]string) (map[string]string, error) {
	type row struct{ email, hash string }
	in, arg := q.In("email", 1, slices.Sorted(maps.Keys(emails)))
	rows, err := db.All(q, func(scan db.Scan) (r row, err error) {
		return r, scan(&r.email, db.ToText(&r.hash))
	}, `SELECT email, password_hash FROM users WHERE `+in, arg)
	hashes := make(map[string]string, len(rows))
	for _, r := range rows {
		hashes[r.email] = r.hash
	}
	return hashes, err
}

const selectToken = `
	SELECT t.id, t.user_id, t.hash, t.description, t.scopes, t.expires_at, t.created_at, a.token_id IS NOT NULL
	FROM access_tokens t
	LEFT JOIN access_token_organizations a ON a.token_id = t.id AND a.organization_id = $1`

func scanToken(scan db.Scan) (storedToken, error) {
	var t storedToken
	return t, scan(&t.ID, &t.UserID, &t.Hash, &t.Description, db.ToJSON(&t.Scopes), db.ToTime(&t.ExpiresAt), db.ToTime(&t.CreatedAt), &t.HasAccess)
}

func tokenByHash(q *db.Q, organizationID, hash string) (storedToken, error) {
	return db.One(q, scanToken, selectToken+` WHERE t.hash = $2`, organizationID, hash)
}

// tokenByDescription returns the oldest token with a description that the user created and that has access to
// the organization.
func tokenByDescription(q *db.Q, organizationID, userID, description string) (storedToken, error) {
	return db.One(q, scanToken, selectToken+`
		WHERE a.token_id IS NOT NULL AND t.grant_id IS NULL AND t.user_id = $2 AND t.description = $3
		ORDER BY t.created_at, t.id
		LIMIT 1`, organizationID, userID, description)
}

func insertToken(q *db.Q, t storedToken) error {
	_, err := q.Exec(`
		INSERT INTO access_tokens (id, user_id, hash, description, scopes, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		t.ID, t.UserID, t.Hash, t.Description, db.JSON(t.Scopes), db.Micros(t.CreatedAt), db.Micros(t.ExpiresAt))
	return err
}

func updateToken(q *db.Q, t storedToken) error {
	_, err := q.Exec(`
		UPDATE access_tokens SET hash = $2, description = $3, scopes = $4, expires_at = $5 WHERE id = $1`,
		t.ID, t.Hash, t.Description, db.JSON(t.Scopes), db.Micros(t.ExpiresAt))
	return err
}

func grantTokenAccess(q *db.Q, tokenID, organizationID string) error {
	_, err := q.Exec(`
		INSERT INTO access_token_organizations (token_id, organization_id)
		VALUES ($1, $2)
		ON CONFLICT DO NOTHING`, tokenID, organizationID)
	return err
}

// found converts ErrNoRows into a NotFound error.
func found(err error, message string) error {
	if errors.Is(err, db.ErrNoRows) {
		return core.Errorf(core.NotFound, "%s", message)
	}
	return err
}

func count(q *db.Q, query string, args ...any) (n int, err error) {
	err = q.QueryRow(query, args...).Scan(&n)
	return n, err
}
