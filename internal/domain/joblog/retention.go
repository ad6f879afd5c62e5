package joblog

import (
	"errors"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const (
	// removalTask is the task that removes old logs, every removeEvery.
	removalTask = "log-removal"
	removeEvery = time.Hour
	// removeBuilds and removeLogs bound one transaction: it removes the logs of that many builds, or of fewer once
	// they had that many.
	removeBuilds, removeLogs = 50, 200
	// unsettled is how long ago a build must have finished before its logs are removed to save space: transactions
	// that commit late must not add builds before the place where the removal is.
	unsettled = 10 * time.Minute
)

// removeOld removes logs of some builds that are past the retention of their organization, or the oldest ones of an
// organization whose logs have more bytes than they may. Finished builds are passed once, in the order in which they
// finished.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	orgs, err := identity.Organizations(q)
	if err != nil {
		return false, err
	}
	for _, org := range orgs {
		l := quotas.Of(&org)
		var before time.Time
		if l.LogRetentionDays > 0 {
			before = s.clock().AddDate(0, 0, -l.LogRetentionDays)
		}
		var excess int64
		if l.LogBytes > 0 {
			used, err := usage.Of(q, org.ID, usage.Logs)
			if err != nil {
				return false, err
			}
			excess = used.Bytes - l.LogBytes
		}
		if before.IsZero() && excess <= 0 {
			continue
		}
		if more, err := s.removeSome(q, org.ID, before, excess); more || err != nil {
			return more, err
		}
	}
	return false, nil
}

// removeSome removes logs of some of the oldest builds of an organization: of those that finished before a time, and of
// later ones until an excess of bytes is gone. It reports whether there may be more.
func (s *Service) removeSome(q *db.Q, orgID string, before time.Time, excess int64) (more bool, err error) {
	until := before
	if excess > 0 {
		until = s.clock().Add(-unsettled)
	}
	at, err := removalOf(q, orgID)
	if err != nil {
		return false, err
	}
	list, err := builds.FinishedAfter(q, orgID, at, until, removeBuilds)
	if err != nil || len(list) == 0 {
		return false, err
	}
	var freed usage.Stored
	removed := 0
	for _, b := range list {
		if !b.At.Before(before) && freed.Bytes >= excess {
			return false, s.endRemoval(q, orgID, at, freed)
		}
		stored, n, err := s.removeOfBuild(q, Job{OrganizationID: orgID, PipelineID: b.PipelineID, BuildID: b.ID})
		if err != nil {
			return false, err
		}
		at = b.Finished
		freed.Bytes, freed.Objects = freed.Bytes+stored.Bytes, freed.Objects+stored.Objects
		if removed += n; removed >= removeLogs {
			break
		}
	}
	return true, s.endRemoval(q, orgID, at, freed)
}

// endRemoval records the progress of the removal and what it has freed.
func (s *Service) endRemoval(q *db.Q, orgID string, at builds.Finished, freed usage.Stored) error {
	_, err := q.Exec(`
		INSERT INTO log_removal (organization_id, finished_at, build_id) VALUES ($1, $2, $3)
		ON CONFLICT (organization_id) DO UPDATE SET finished_at = excluded.finished_at, build_id = excluded.build_id`,
		orgID, db.Micros(at.At), at.ID)
	if err != nil {
		return err
	}
	return usage.Add(q, orgID, usage.Logs, usage.Stored{Bytes: -freed.Bytes, Objects: -freed.Objects})
}

// removalOf returns the progress of the removal of an organization's logs.
func removalOf(q *db.Q, orgID string) (at builds.Finished, err error) {
	err = q.QueryRow(`SELECT finished_at, build_id FROM log_removal WHERE organization_id = $1`, orgID).Scan(db.ToTime(&at.At), &at.ID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return at, err
}

// removeOfBuild deletes the logs of the ended jobs of a build. It returns what their archives had, and the number of jobs.
// The caller adds to the counter.
func (s *Service) removeOfBuild(q *db.Q, of Job) (freed usage.Stored, jobs int, err error) {
	ids, err := db.Strings(q, `
		SELECT id FROM jobs j WHERE build_id = $1 AND type = 'script' AND started_at IS NOT NULL AND finished_at IS NOT NULL
		  AND NOT EXISTS (SELECT 1 FROM job_logs l WHERE l.job_id = j.id AND l.deleted_at IS NOT NULL)
		ORDER BY id`, of.BuildID)
	if err != nil {
		return freed, 0, err
	}
	for _, id := range ids {
		of.ID = id
		r, err := lock(q, of)
		if err != nil {
			return freed, 0, err
		}
		if !r.ended || r.deleted {
			continue
		}
		stored, err := s.markRemoved(q, of, r)
		if err != nil {
			return freed, 0, err
		}
		freed.Bytes, freed.Objects = freed.Bytes+stored.Bytes, freed.Objects+stored.Objects
	}
	return freed, len(ids), nil
}

// markRemoved records that the log of an ended job, whose row is locked, was deleted, and enqueues the removal of its
// blobs. It returns what its archive had.
func (s *Service) markRemoved(q *db.Q, job Job, r record) (freed usage.Stored, err error) {
	now := s.clock()
	if err := markDeleted(q, job, now); err != nil {
		return freed, err
	}
	q.Announce(job.topic())
	if err := removeSmallLog(q, job); err != nil {
		return freed, err
	}
	if r.spilled || r.archive != "" {
		err = pipelines.RemoveBytes(q, job.prefix(), now)
	}
	return r.stored(), err
}

// stored returns what the log counts as.
func (r record) stored() usage.Stored {
	if r.archive == "" {
		return usage.Stored{}
	}
	return usage.Stored{Bytes: r.archiveSize, Objects: 1}
}

// ReleaseBuild subtracts the logs of a build that is about to be removed from what its organization stores.
func ReleaseBuild(q *db.Q, buildID string) error {
	type stored struct {
		org string
		usage.Stored
	}
	list, err := db.All(q, func(scan db.Scan) (s stored, err error) { return s, scan(&s.org, &s.Bytes, &s.Objects) }, `
		SELECT l.organization_id, CAST(SUM(l.archive_size) AS BIGINT), COUNT(*)
		FROM jobs j JOIN job_logs l ON l.job_id = j.id
		WHERE j.build_id = $1 AND l.archive IS NOT NULL
		GROUP BY l.organization_id`, buildID)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := usage.Add(q, s.org, usage.Logs, usage.Stored{Bytes: -s.Bytes, Objects: -s.Objects}); err != nil {
			return err
		}
	}
	return nil
}

// RemoveSome removes the records of at most limit logs of a build, and returns how many. Their blobs are removed with the
// build.
func RemoveSome(q *db.Q, buildID string, limit int) (int64, error) {
	type row struct {
		id, org string
		usage.Stored
	}
	list, err := db.All(q, func(scan db.Scan) (r row, err error) { return r, scan(&r.id, &r.org, &r.Bytes, &r.Objects) }, `
		SELECT l.job_id, l.organization_id, COALESCE(l.archive_size, 0), CASE WHEN l.archive IS NULL THEN 0 ELSE 1 END
		FROM jobs j JOIN job_logs l ON l.job_id = j.id
		WHERE j.build_id = $1 LIMIT $2`, buildID, limit)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	var ids []string
	var freed usage.Stored
	for _, r := range list {
		ids = append(ids, r.id)
		freed.Bytes, freed.Objects = freed.Bytes-r.Bytes, freed.Objects-r.Objects
	}
	in, arg := q.In("job_id", 1, ids)
	removed, err := q.Exec(`DELETE FROM job_logs WHERE `+in, arg)
	if err != nil {
		return 0, err
	}
	return removed, usage.Add(q, list[0].org, usage.Logs, freed)
}
