package oauth

import (
	"time"

	"stackyard/internal/db"
)

// An authorizationCode is what an application exchanges for a token.
type authorizationCode struct {
	id          string // hash of the code
	grantID     string
	redirectURI string
	challenge   string
	used        bool
	expiresAt   time.Time
}

func insertCode(q *db.Q, c authorizationCode) error {
	_, err := q.Exec(`
		INSERT INTO oauth_authorization_codes (id, grant_id, redirect_uri, code_challenge, used, expires_at)
		VALUES ($1, $2, $3, $4, FALSE, $5)`,
		c.id, c.grantID, c.redirectURI, c.challenge, db.Micros(c.expiresAt))
	return err
}
