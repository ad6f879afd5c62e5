package builds

import (
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const (
	// removalTask is the kind of the task that removes builds, and removeEvery how often it looks for
	// some.
	removalTask = "build-removal"
	removeEvery = time.Hour
	// removeBuilds and removeJobs bound what one transaction removes: that many builds, or fewer as soon
	// as they have had that many jobs. A build is removed whole, so that nobody ever finds a part of one.
	removeBuilds, removeJobs = 50, 500
)

// removeOld removes some of the finished builds that are older than their organizations keep them, with
// all they own, and reports whether there may be more.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	keepers, err := keepers(q)
	if err != nil {
		return false, err
	}
	for _, k := range keepers {
		old, err := finishedBefore(q, k.orgID, s.clock().AddDate(0, 0, -k.days))
		if err != nil {
			return false, err
		}
		if len(old) > 0 {
			return true, remove(q, old, s.clock())
		}
	}
	return false, nil
}

// A keeper is an organization that keeps finished builds for a number of days.
type keeper struct {
	orgID string
	days  int
}

// keepers returns the organizations that do not keep builds for ever.
func keepers(q *db.Q) ([]keeper, error) {
	orgs, err := identity.Organizations(q)
	var found []keeper
	for _, org := range orgs {
		if days := quotas.Of(&org).BuildRetentionDays; days > 0 {
			found = append(found, keeper{org.ID, days})
		}
	}
	return found, err
}

// Prefix is what the keys of all blobs of a build begin with, such as those of its logs and artifacts.
// They are removed with the build.
func Prefix(orgID, pipelineID, buildID string) string {
	return pipelines.Prefix(orgID, pipelineID) + "/" + buildID
}

// An oldBuild is one to be removed, with what the keys of its blobs begin with.
type oldBuild struct{ id, prefix string }

// finishedBefore returns some builds of an organization that ended before a time, oldest first. Those
// that somebody is about to change, such as by a retry, are left out; the others nobody changes any more.
func finishedBefore(q *db.Q, orgID string, t time.Time) ([]oldBuild, error) {
	scan := func(scan db.Scan) (old oldBuild, err error) {
		var pipelineID string
		err = scan(&old.id, &pipelineID)
		old.prefix = Prefix(orgID, pipelineID, old.id)
		return old, err
	}
	return db.All(q, scan, `
		SELECT id, pipeline_id FROM builds
		WHERE organization_id = $1 AND finished_at IS NOT NULL AND finished_at < $2
		ORDER BY finished_at
		LIMIT $3`+q.SkipLocked(), orgID, db.Micros(t), removeBuilds)
}

// remove removes builds, until enough is done.
func remove(q *db.Q, builds []oldBuild, now time.Time) error {
	removed := 0
	for _, old := range builds {
		var jobs int
		if err := q.QueryRow(`SELECT COUNT(*) FROM jobs WHERE build_id = $1`, old.id).Scan(&jobs); err != nil {
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
