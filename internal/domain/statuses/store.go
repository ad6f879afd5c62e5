package statuses

import (
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const selectStatus = `
	SELECT id, organization_id, repository, commit_id, context, build_id, job_id, version, state, description, url, updated_at,
		sent_version, sent_at, attempts, error
	FROM commit_statuses `

func scanStatus(scan db.Scan) (*Status, error) {
	s := &Status{}
	err := scan(&s.ID, &s.OrganizationID, &s.Repository, &s.Commit, &s.Context, &s.BuildID, db.ToText(&s.JobID), &s.Version, &s.State, &s.Description, &s.URL, db.ToTime(&s.UpdatedAt),
		&s.SentVersion, db.ToTime(&s.SentAt), &s.Attempts, db.ToText(&s.Error))
	return s, err
}

// byID returns a status, or nil.
func byID(q *db.Q, id string) (*Status, error) {
	s, err := db.One(q, scanStatus, selectStatus+`WHERE id = $1`, id)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return s, err
}

// upsert saves the newest state of a context. It returns the id, or "" when the stored one is newer or equal: most jobs
// of a step change nothing about the state of the step.
func upsert(q *db.Q, s *Status) (id string, err error) {
	err = q.QueryRow(`
		INSERT INTO commit_statuses (id, organization_id, repository, commit_id, context, build_id, job_id, version, state, description, url, updated_at, sent_version, attempts)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0, 0)
		ON CONFLICT (organization_id, repository, commit_id, context) DO UPDATE SET
			build_id    = excluded.build_id,
			job_id      = excluded.job_id,
			version     = excluded.version,
			state       = excluded.state,
			description = excluded.description,
			url         = excluded.url,
			updated_at  = excluded.updated_at,
			attempts    = 0
		WHERE excluded.build_id > commit_statuses.build_id
			OR (excluded.build_id = commit_statuses.build_id AND excluded.version > commit_statuses.version
				AND (excluded.state <> commit_statuses.state OR excluded.description <> commit_statuses.description))
		RETURNING id`,
		core.NewID(), s.OrganizationID, s.Repository, s.Commit, s.Context, s.BuildID, db.Text(s.JobID), s.Version, s.State, s.Description, s.URL, db.Micros(s.UpdatedAt)).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, err
}

func exists(q *db.Q, s *Status) (bool, error) {
	var n int
	err := q.QueryRow(`
		SELECT COUNT(*) FROM commit_statuses
		WHERE organization_id = $1 AND repository = $2 AND commit_id = $3 AND context = $4 AND build_id = $5`,
		s.OrganizationID, s.Repository, s.Commit, s.Context, s.BuildID).Scan(&n)
	return n > 0, err
}

func countJobStatuses(q *db.Q, organizationID, buildID string) (n int, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FROM commit_statuses WHERE organization_id = $1 AND build_id = $2 AND job_id IS NOT NULL`, organizationID, buildID).Scan(&n)
	return n, err
}

// ofBuild returns the statuses that are about a build, by context.
func ofBuild(q *db.Q, organizationID, buildID string) ([]*Status, error) {
	return db.All(q, scanStatus, selectStatus+`WHERE organization_id = $1 AND build_id = $2 ORDER BY context LIMIT $3`, organizationID, buildID, 2*maxJobContexts)
}

// recordSent saves that a state was sent, or refused with a reason. It is not tried again.
func recordSent(q *db.Q, s *Status, reason string, now time.Time) error {
	_, err := q.Exec(`
		UPDATE commit_statuses SET sent_version = $2, sent_at = $3, attempts = 0, error = $4
		WHERE id = $1 AND build_id = $5 AND sent_version < $2`, s.ID, s.Version, db.Micros(now), db.Text(reason), s.BuildID)
	return err
}

// recordFailure saves that a state could not be sent, unless there is a newer one.
func recordFailure(q *db.Q, s *Status, reason string) error {
	_, err := q.Exec(`UPDATE commit_statuses SET attempts = attempts + 1, error = $3 WHERE id = $1 AND version = $2`, s.ID, s.Version, reason)
	return err
}

const (
	// keep is how long statuses are kept after their last change: longer than they are tried.
	keep        = 7 * 24 * time.Hour
	removeBatch = 500
	removeTask  = "commit-status-removal"
)

// removeOld removes some statuses that have not changed for long.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	removed, err := q.Exec(`
		DELETE FROM commit_statuses WHERE id IN (SELECT id FROM commit_statuses WHERE updated_at < $1 ORDER BY updated_at LIMIT $2)`,
		db.Micros(s.Clock().Add(-keep)), removeBatch)
	return removed == removeBatch, err
}
