package oauth

import (
	"slices"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/limits"
	"stackyard/internal/platform/tasks"
)

const (
	// removalTask is the sweep that removes expired rows, removeEvery its interval, and removeAtOnce the
	// maximum rows of a table per transaction.
	removalTask  = "oauth-removal"
	removeEvery  = 10 * time.Minute
	removeAtOnce = 500
	// keepExpired is how long an expired code is kept, so that it can be answered with expired_token.
	keepExpired = time.Hour
)

// Background registers background work.
func (s *Service) Background(r *tasks.Runner) {
	r.Sweep(removalTask, removeEvery, s.removeOld)
}

// removeOld removes a batch of expired rows and grants without tokens, and reports whether there may be more.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	now := s.clock()
	var grants []string
	for _, old := range []struct {
		table, condition string
		before           time.Time
	}{
		{"oauth_device_requests", "expires_at < $1", now.Add(-keepExpired)},
		{"oauth_authorization_codes", "expires_at < $1", now.Add(-keepExpired)},
		{"oauth_refresh_tokens", "expires_at < $1", now},
		{"access_tokens", "expires_at < $1 AND grant_id IS NOT NULL", now},
	} {
		ids, err := db.Strings(q, `
			SELECT id FROM `+old.table+`
			WHERE `+old.condition+`
			ORDER BY expires_at
			LIMIT $2`+q.SkipLocked(), db.Micros(old.before), removeAtOnce)
		if err != nil {
			return false, err
		}
		in, arg := q.In("id", 1, ids)
		of, err := db.Strings(q, `DELETE FROM `+old.table+` WHERE `+in+` RETURNING COALESCE(grant_id, '')`, arg)
		if err != nil {
			return false, err
		}
		grants = append(grants, of...)
		more = more || len(ids) == removeAtOnce
	}
	if err := limits.SweepTries(q, now); err != nil {
		return false, err
	}
	slices.Sort(grants)
	return more, removeOrphans(q, slices.Compact(grants))
}

// removeOrphans removes those of the given grants that have no tokens left.
func removeOrphans(q *db.Q, grants []string) error {
	in, arg := q.In("id", 1, grants)
	_, err := q.Exec(`
		DELETE FROM oauth_grants
		WHERE `+in+`
			AND NOT EXISTS (SELECT 1 FROM access_tokens t WHERE t.grant_id = oauth_grants.id)
			AND NOT EXISTS (SELECT 1 FROM oauth_refresh_tokens t WHERE t.grant_id = oauth_grants.id)
			AND NOT EXISTS (SELECT 1 FROM oauth_device_requests d WHERE d.grant_id = oauth_grants.id)
			AND NOT EXISTS (SELECT 1 FROM oauth_authorization_codes c WHERE c.grant_id = oauth_grants.id)`, arg)
	return err
}
