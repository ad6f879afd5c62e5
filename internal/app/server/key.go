package server

import (
	"context"
	"errors"

	"stackyard/internal/platform/db"
)

// KeyFingerprint returns the fingerprint of the key that an installation's secrets are sealed with; "" if it has none
// yet.
func KeyFingerprint(ctx context.Context, d *db.DB) (fingerprint string, err error) {
	err = d.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT value FROM installation WHERE name = $1`, fingerprintName).Scan(&fingerprint)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return fingerprint, err
}
