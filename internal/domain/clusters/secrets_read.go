package clusters

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Reader is the job that wants to read a secret, as far as policies ask about it.
type Reader struct {
	OrganizationID string
	ClusterID      string
	QueueID        string
	PipelineID     string
	PipelineSlug   string
	BuildSource    string
	BuildBranch    string
	BuildCreator   *identity.User // nil: nobody here
}

// readNoted is how exactly it is noted when a secret was last read: a secret that hundreds of jobs read
// in the same minute is written once.
const readNoted = time.Minute

// ReadSecret returns a secret of the job's cluster and its value. A secret that does not exist is
// NotFound, one whose policy does not let the job read it Forbidden.
func (s *Service) ReadSecret(ctx context.Context, by Reader, key string) (secret Secret, value string, err error) {
	var holds map[string][]string
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		secret, err = db.One(q, scanSecret, selectSecret+`
			JOIN clusters c ON c.id = s.cluster_id AND c.deleted_at IS NULL
			WHERE c.organization_id = $1 AND s.cluster_id = $2 AND s.key = $3`, by.OrganizationID, by.ClusterID, key)
		if err != nil {
			return err
		}
		holds, err = by.claims(q)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return Secret{}, "", core.Errorf(core.NotFound, "The cluster of this job has no secret with the key %q", key)
	}
	if err != nil {
		return Secret{}, "", err
	}
	if !permits(secret.Policy, holds) {
		return Secret{}, "", core.Errorf(core.Forbidden, "The policy of the secret %q does not let this job read it", key)
	}
	opened, err := s.key.Open(secret.sealed, secretContext(secret.ID))
	if err != nil {
		return Secret{}, "", err
	}
	return secret, string(opened), s.noteRead(ctx, secret)
}

// claims returns what holds of the job, by claim.
func (by Reader) claims(q *db.Q) (map[string][]string, error) {
	holds := map[string][]string{
		"pipeline_id":      {by.PipelineID},
		"pipeline_slug":    {by.PipelineSlug},
		"build_source":     {by.BuildSource},
		"build_branch":     {by.BuildBranch},
		"cluster_queue_id": {by.QueueID},
	}
	text := func(scan db.Scan) (text string, err error) { return text, scan(&text) }
	var err error
	holds["cluster_queue_key"], err = db.All(q, text, `SELECT key FROM queues WHERE cluster_id = $1 AND id = $2`, by.ClusterID, by.QueueID)
	if err != nil || by.BuildCreator == nil {
		return holds, err
	}
	holds["build_creator"] = []string{by.BuildCreator.ID, by.BuildCreator.Email}
	teams, err := db.All(q, func(scan db.Scan) (t [2]string, err error) { return t, scan(&t[0], &t[1]) }, `
		SELECT t.id, t.slug FROM team_members m JOIN teams t ON t.id = m.team_id
		WHERE t.organization_id = $1 AND m.user_id = $2`, by.OrganizationID, by.BuildCreator.ID)
	for _, t := range teams {
		holds["build_creator_team"] = append(holds["build_creator_team"], t[:]...)
	}
	return holds, err
}

// noteRead notes that a secret was read, unless it was noted just before.
func (s *Service) noteRead(ctx context.Context, secret Secret) error {
	now := s.clock()
	if now.Sub(secret.LastReadAt) < readNoted {
		return nil
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`UPDATE cluster_secrets SET last_read_at = $2 WHERE id = $1`, secret.ID, db.Micros(now))
		return err
	})
}
