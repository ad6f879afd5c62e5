package artifacts

import (
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/message"
)

const (
	expiryTask  = "artifact-expiry"
	expireEvery = time.Hour
	// expireSoon is when artifacts expire after the limit was reached: about when the next upload has finished.
	expireSoon = time.Minute
	// expireBatch bounds the artifacts that expire in one transaction.
	expireBatch = 200
)

// Background registers the expiry of artifacts.
func (s *Service) Background(r *tasks.Runner) { r.Sweep(expiryTask, expireEvery, s.expireSome) }

// expireSome expires some artifacts that are past the retention of their organization, or the oldest ones of an
// organization that stores more than it may and removes the oldest.
func (s *Service) expireSome(q *db.Q) (more bool, err error) {
	orgs, err := identity.Organizations(q)
	if err != nil {
		return false, err
	}
	for _, org := range orgs {
		l := quotas.Of(&org)
		if l.ArtifactRetentionDays > 0 {
			expired, err := s.expire(q, org.ID, s.clock().AddDate(0, 0, -l.ArtifactRetentionDays), 0)
			if err != nil || expired > 0 {
				return err == nil, err
			}
		}
		if l.ArtifactBytes == 0 || l.AtArtifactLimit != quotas.RemoveOldest {
			continue
		}
		used, err := usage.Of(q, org.ID, usage.Artifacts)
		if err != nil {
			return false, err
		}
		if excess := used.Bytes - l.ArtifactBytes; excess > 0 {
			expired, err := s.expire(q, org.ID, time.Time{}, excess)
			if err != nil || expired > 0 {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// expire expires some of the oldest artifacts of an organization: those from before a time, or until an excess of bytes
// is gone. It returns how many.
func (s *Service) expire(q *db.Q, orgID string, before time.Time, excess int64) (expired int, err error) {
	until := before
	if before.IsZero() {
		until = s.clock().Add(time.Hour)
	}
	list, err := db.All(q, scanArtifact, selectArtifact+`
		WHERE a.organization_id = $1 AND a.state = 'finished' AND a.location = '' AND a.created_at < $2
		ORDER BY a.created_at, a.id LIMIT $3`, orgID, db.Micros(until), expireBatch)
	if err != nil {
		return 0, err
	}
	var freed usage.Stored
	for _, a := range list {
		if before.IsZero() && freed.Bytes >= excess {
			break
		}
		n, err := q.Exec(`UPDATE artifacts SET state = $2 WHERE id = $1 AND state = $3`, a.ID, StateExpired, StateFinished)
		if err != nil {
			return 0, err
		}
		expired++
		if n == 0 {
			continue // removed meanwhile
		}
		if err := pipelines.RemoveBytes(q, a.Prefix(), s.clock()); err != nil {
			return 0, err
		}
		freed.Bytes, freed.Objects = freed.Bytes+a.FileSize, freed.Objects+1
	}
	return expired, usage.Add(q, orgID, usage.Artifacts, usage.Stored{Bytes: -freed.Bytes, Objects: -freed.Objects})
}

// checkQuota returns an error if files do not fit into what their organization may store, or lets the oldest artifacts
// expire at once. Files whose upload has not finished do not count, so the limit can be exceeded by what is uploaded at
// the same time.
func checkQuota(q *db.Q, orgID string, list []Artifact, now time.Time) error {
	var bytes int64
	for _, a := range list {
		if a.Kept() {
			bytes += a.FileSize
		}
	}
	if bytes == 0 {
		return nil
	}
	org, err := identity.OrganizationByID(q, orgID)
	if err != nil {
		return err
	}
	l := quotas.Of(org)
	if l.ArtifactBytes == 0 {
		return nil
	}
	if bytes > l.ArtifactBytes {
		return core.Errorf(core.Unprocessable, "The files have %s; the organization %s may store artifacts of %s", message.Size(bytes), org.Slug, message.Size(l.ArtifactBytes))
	}
	used, err := usage.Of(q, orgID, usage.Artifacts)
	if err != nil || used.Bytes+bytes <= l.ArtifactBytes {
		return err
	}
	if l.AtArtifactLimit == quotas.RemoveOldest {
		return tasks.Add(q, tasks.Task{Kind: expiryTask, RunAt: now.Add(expireSoon)})
	}
	return core.Errorf(core.Unprocessable, "The organization %s stores artifacts of %s and may store %s; the files have %s. Delete artifacts, or ask an administrator for more or for a shorter retention",
		org.Slug, message.Size(used.Bytes), message.Size(l.ArtifactBytes), message.Size(bytes))
}

// ReleaseBuild subtracts the artifacts of a build that is about to be removed from what its organization stores.
func ReleaseBuild(q *db.Q, buildID string) error {
	type stored struct {
		org string
		usage.Stored
	}
	list, err := db.All(q, func(scan db.Scan) (s stored, err error) { return s, scan(&s.org, &s.Bytes, &s.Objects) }, `
		SELECT organization_id, CAST(SUM(file_size) AS BIGINT), COUNT(*) FROM artifacts
		WHERE build_id = $1 AND state = 'finished' AND location = ''
		GROUP BY organization_id`, buildID)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := usage.Add(q, s.org, usage.Artifacts, usage.Stored{Bytes: -s.Bytes, Objects: -s.Objects}); err != nil {
			return err
		}
	}
	return nil
}

// RemoveSome removes at most limit artifacts of a build, and returns how many. Their blobs are removed with the build.
func RemoveSome(q *db.Q, buildID string, limit int) (int64, error) {
	type row struct {
		id, org string
		stored  bool
		size    int64
	}
	list, err := db.All(q, func(scan db.Scan) (r row, err error) { return r, scan(&r.id, &r.org, &r.stored, &r.size) }, `
		SELECT id, organization_id, state = 'finished' AND location = '', file_size FROM artifacts WHERE build_id = $1 LIMIT $2`, buildID, limit)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	var ids []string
	var freed usage.Stored
	for _, r := range list {
		ids = append(ids, r.id)
		if r.stored {
			freed.Bytes, freed.Objects = freed.Bytes-r.size, freed.Objects-1
		}
	}
	in, arg := q.In("id", 1, ids)
	removed, err := q.Exec(`DELETE FROM artifacts WHERE `+in, arg)
	if err != nil {
		return 0, err
	}
	return removed, usage.Add(q, list[0].org, usage.Artifacts, freed)
}
