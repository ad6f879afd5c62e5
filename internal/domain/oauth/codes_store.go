package oauth

import "stackyard/internal/platform/db"

func insertCode(q *db.Q, c authorizationCode) error {
	_, err := q.Exec(`
		INSERT INTO oauth_authorization_codes (id, grant_id, redirect_uri, code_challenge, used, expires_at)
		VALUES ($1, $2, $3, $4, FALSE, $5)`,
		c.id, c.grantID, c.redirectURI, c.challenge, db.Micros(c.expiresAt))
	return err
}

// lockCode locks and returns the code with a hash, or db.ErrNoRows.
func lockCode(q *db.Q, id string) (authorizationCode, error) {
	if err := q.Lock("oauth_authorization_codes", id); err != nil {
		return authorizationCode{}, err
	}
	return db.One(q, func(scan db.Scan) (c authorizationCode, err error) {
		return c, scan(&c.id, &c.grantID, &c.applicationID, &c.redirectURI, &c.challenge, &c.used, db.ToTime(&c.expiresAt))
	}, `
		SELECT c.id, c.grant_id, g.application_id, c.redirect_uri, c.code_challenge, c.used, c.expires_at
		FROM oauth_authorization_codes c
		JOIN oauth_grants g ON g.id = c.grant_id
		WHERE c.id = $1`, id)
}

func useCode(q *db.Q, id string) error {
	_, err := q.Exec(`UPDATE oauth_authorization_codes SET used = TRUE WHERE id = $1`, id)
	return err
}
