package caches

import (
	"time"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

const (
	evictTask  = "cache-eviction"
	evictEvery = time.Hour
	// evictBatch limits the entries that one transaction removes.
	evictBatch = 50
	// maxUnused is how long an entry is kept without being used, and maxUpload how long an upload can take.
	maxUnused = 30 * 24 * time.Hour
	maxUpload = 6 * time.Hour
)

// Background registers the removal of entries.
func (s *Service) Background(r *tasks.Runner) { r.Sweep(evictTask, evictEvery, s.evictSome) }

// evictSome removes some entries: uploads that did not end, entries that were not used for long, and the least recently used ones of
// organizations that store more than they may.
func (s *Service) evictSome(q *db.Q) (more bool, err error) {
	now := s.clock()
	orgs, err := identity.Organizations(q)
	if err != nil {
		return false, err
	}
	for _, org := range orgs {
		victims, err := evictable(q, &org, now)
		if err != nil {
			return false, err
		}
		if len(victims) > 0 {
			if err := lockPipelines(q, victims); err != nil {
				return false, err
			}
			return true, removeEntries(q, victims, now)
		}
	}
	return false, nil
}

// evictable returns some entries of an organization that are to be removed.
func evictable(q *db.Q, org *identity.Organization, now time.Time) ([]*Entry, error) {
	victims, err := entries(q, `organization_id = $1 AND NOT finished AND created_at < $2 ORDER BY created_at LIMIT $3`, org.ID, db.Micros(now.Add(-maxUpload)), evictBatch)
	if err != nil || len(victims) > 0 {
		return victims, err
	}
	for _, protected := range []bool{false, true} {
		victims, err := entries(q, `organization_id = $1 AND protected = $2 AND used_at < $3 AND finished ORDER BY used_at LIMIT $4`, org.ID, protected, db.Micros(now.Add(-maxUnused)), evictBatch)
		if err != nil || len(victims) > 0 {
			return victims, err
		}
	}
	limit := quotas.Of(org).CacheBytes
	used, err := usage.Of(q, org.ID, usage.Caches)
	if err != nil || limit == 0 || used.Bytes <= limit {
		return nil, err
	}
	oldest, err := entries(q, `organization_id = $1 AND finished AND store = $2 ORDER BY protected, used_at LIMIT $3`, org.ID, OnServer, evictBatch)
	if err != nil {
		return nil, err
	}
	// Entries can share bytes, so this may remove too few of them; then there is a next time.
	excess := used.Bytes - limit
	for i, e := range oldest {
		if excess -= e.Size; excess <= 0 {
			return oldest[:i+1], nil
		}
	}
	return oldest, nil
}

// makeRoom removes the least recently used entry of a pipeline that has as many as it can have. The caller holds its lock.
func makeRoom(q *db.Q, pipelineID string, now time.Time) error {
	var has int
	if err := q.QueryRow(`SELECT COUNT(*) FROM cache_entries WHERE pipeline_id = $1`, pipelineID).Scan(&has); err != nil || has < maxEntries {
		return err
	}
	oldest, err := entries(q, `pipeline_id = $1 ORDER BY protected, used_at LIMIT $2`, pipelineID, has-maxEntries+1)
	if err != nil {
		return err
	}
	return removeEntries(q, oldest, now)
}

// RemoveOf removes at most limit entries of a pipeline and returns how many.
func RemoveOf(q *db.Q, pipelineID string, limit int, now time.Time) (int, error) {
	list, err := entries(q, `pipeline_id = $1 LIMIT $2`, pipelineID, limit)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	if err := lockPipelines(q, list); err != nil {
		return 0, err
	}
	return len(list), removeEntries(q, list, now)
}
