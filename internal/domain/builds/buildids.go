package builds

import (
	"context"
	"errors"
	"sync"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// maxCachedBuildIDs bounds the cache.
const maxCachedBuildIDs = 20_000

// buildIDCache caches the build ids of jobs, which never change. The zero value is ready to use.
type buildIDCache struct {
	mu     sync.Mutex
	builds map[jobOf]string
}

func (c *buildIDCache) add(job jobOf, buildID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.builds == nil || len(c.builds) >= maxCachedBuildIDs {
		c.builds = map[jobOf]string{}
	}
	c.builds[job] = buildID
}

func (c *buildIDCache) get(job jobOf) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.builds[job]
}

// buildOf returns the build of a job of an organization, or a NotFound error.
func (s *Service) buildOf(ctx context.Context, orgID, jobID string) (buildID string, err error) {
	job := jobOf{orgID, jobID}
	if buildID := s.buildIDs.get(job); buildID != "" {
		return buildID, nil
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		buildID, err = BuildIDOf(q, orgID, jobID)
		return err
	})
	if err == nil {
		s.buildIDs.add(job, buildID)
	}
	return buildID, err
}

// BuildIDOf returns the id of the build of a job of an organization, or a NotFound error.
func BuildIDOf(q *db.Q, orgID, jobID string) (buildID string, err error) {
	err = q.QueryRow(`SELECT build_id FROM jobs WHERE organization_id = $1 AND id = $2`, orgID, jobID).Scan(&buildID)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noJob)
	}
	return buildID, err
}
