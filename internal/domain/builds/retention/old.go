package retention

import (
	"time"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const (
	// removalTask is the task that removes old builds, every removeEvery.
	removalTask = "build-removal"
	removeEvery = time.Hour
	// removeBuilds and removeJobs bound one transaction: it removes that many builds, or fewer once they had
	// that many jobs. A build is removed as a whole, so that callers never see a part of one.
	removeBuilds, removeJobs = 50, 500
)

// RemoveOld removes some of the finished builds that are past their organization's retention, and reports
// whether there may be more.
func RemoveOld(q *db.Q, now time.Time) (more bool, err error) {
	periods, err := retentions(q)
	if err != nil {
		return false, err
	}
	for _, k := range periods {
		old, err := finishedBefore(q, k.orgID, now.AddDate(0, 0, -k.days))
		if err != nil {
			return false, err
		}
		if len(old) > 0 {
			return true, remove(q, old, now)
		}
	}
	return false, nil
}

// A retention is the retention period of an organization.
type retention struct {
	orgID string
	days  int
}

// retentions returns the organizations with a retention period.
func retentions(q *db.Q) ([]retention, error) {
	orgs, err := identity.Organizations(q)
	var found []retention
	for _, org := range orgs {
		if days := quotas.Of(&org).BuildRetentionDays; days > 0 {
			found = append(found, retention{org.ID, days})
		}
	}
	return found, err
}

// An oldBuild is a build to remove, with the prefix of its blobs.
type oldBuild struct{ id, prefix string }

// finishedBefore returns some builds of an organization that finished before a time, oldest first. It skips
// builds that are being changed and locks the others.
func finishedBefore(q *db.Q, orgID string, t time.Time) ([]oldBuild, error) {
	scan := func(scan db.Scan) (old oldBuild, err error) {
		var pipelineID string
		err = scan(&old.id, &pipelineID)
		old.prefix = builds.Prefix(orgID, pipelineID, old.id)
		return old, err
	}
	return db.All(q, scan, `
		SELECT id, pipeline_id FROM builds
		WHERE organization_id = $1 AND finished_at IS NOT NULL AND finished_at < $2
		ORDER BY finished_at
		LIMIT $3`+q.SkipLocked(), orgID, db.Micros(t), removeBuilds)
}

// remove removes builds until the limit of a transaction is reached.
func remove(q *db.Q, list []oldBuild, now time.Time) error {
	removed := 0
	for _, old := range list {
		var jobs int
		if err := q.QueryRow(`SELECT COUNT(*) FROM jobs WHERE build_id = $1`, old.id).Scan(&jobs); err != nil {
			return err
		}
		if err := artifacts.ReleaseBuild(q, old.id); err != nil {
			return err
		}
		if err := joblog.ReleaseBuild(q, old.id); err != nil {
			return err
		}
		if _, err := q.Exec(`DELETE FROM builds WHERE id = $1`, old.id); err != nil {
			return err
		}
		if err := pipelines.RemoveBytes(q, old.prefix, now); err != nil {
			return err
		}
		if removed += jobs; removed >= removeJobs {
			return nil
		}
	}
	return nil
}
