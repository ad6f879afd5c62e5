package clusters

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Reader is a job that reads secrets, with the fields that policies test.
type Reader struct {
	OrganizationID string
	ClusterID      string
	QueueID        string
	PipelineID     string
	PipelineSlug   string
	BuildSource    string
	BuildBranch    string
	BuildCreator   *identity.User // nil: not a user of this service
}

// readResolution is the precision of LastReadAt. A secret that hundreds of jobs read in the same minute is
// written once.
const readResolution = time.Minute

// ReadSecret returns a secret of the job's cluster and its value. The error is NotFound if the secret does not
// exist, and Forbidden if its policy does not permit the job.
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
	return secret, string(opened), s.recordRead(ctx, secret)
}

// claims returns the job's values by claim.
func (by Reader) claims(q *db.Q) (map[string][]string, error) {
	holds := map[string][]string{
		"pipeline_id":      {by.PipelineID},
		"pipeline_slug":    {by.PipelineSlug},
		"build_source":     {by.BuildSource},
		"build_branch":     {by.BuildBranch},
		"cluster_queue_id": {by.QueueID},
	}
	var err error
	holds["cluster_queue_key"], err = db.Strings(q, `SELECT key FROM queues WHERE cluster_id = $1 AND id = $2`, by.ClusterID, by.QueueID)
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

// recordRead records that a secret was read, unless that was recorded recently.
func (s *Service) recordRead(ctx context.Context, secret Secret) error {
	now := s.clock()
	if now.Sub(secret.LastReadAt) < readResolution {
		return nil
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`UPDATE cluster_secrets SET last_read_at = $2 WHERE id = $1`, secret.ID, db.Micros(now))
		return err
	})
}
