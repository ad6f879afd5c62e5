package lifecycle

import (
	"context"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
)

// maxCachedBuildIDs bounds the cached build ids of jobs, which never change.
const maxCachedBuildIDs = 20_000

// buildOf returns the build of a job of an organization, or a NotFound error.
func (s *Service) buildOf(ctx context.Context, orgID, jobID string) (buildID string, err error) {
	job := jobOf{orgID, jobID}
	if buildID, ok := s.buildIDs.Get(job); ok {
		return buildID, nil
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		buildID, err = builds.BuildIDOf(q, orgID, jobID)
		return err
	})
	if err == nil {
		s.buildIDs.Add(job, buildID)
	}
	return buildID, err
}
