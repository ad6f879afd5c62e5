package account

import (
	"strings"
	"time"

	"stackyard/internal/platform/db"
)

// A Credential names what a user is signed in with, for work that outlives a request: "token:ID" for an access token,
// "grant:ID" for the tokens that an OAuth application gets one after the other, "session:ID" for a session on pages.
type Credential string

// TokenCredential returns the credential of an access token.
func TokenCredential(q *db.Q, tokenID string) (Credential, error) {
	grant, err := GrantOfTokenID(q, tokenID)
	if grant != "" {
		return Credential("grant:" + grant), nil
	}
	return Credential("token:" + tokenID), err
}

// SessionCredential returns the credential of a session on pages.
func SessionCredential(s *Session) Credential { return Credential("session:" + s.ID) }

// Valid reports whether the user is still signed in with the credential: it was not revoked and has not expired.
func (c Credential) Valid(q *db.Q, now time.Time) (bool, error) {
	kind, id, _ := strings.Cut(string(c), ":")
	statement, known := map[string]string{
		"token":   `SELECT COUNT(*) FROM access_tokens WHERE id = $1 AND (expires_at IS NULL OR expires_at > $2)`,
		"grant":   `SELECT COUNT(*) FROM access_tokens WHERE grant_id = $1 AND (expires_at IS NULL OR expires_at > $2)`,
		"session": `SELECT COUNT(*) FROM sessions WHERE id = $1 AND expires_at > $2`,
	}[kind]
	if !known {
		return false, nil
	}
	n, err := db.Count(q, statement, id, db.Micros(now))
	return n > 0, err
}
