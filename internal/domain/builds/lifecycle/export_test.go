package lifecycle

import (
	"context"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// EndStart does the second half of starting the build of a trigger job: the build was made.
func (s *Service) EndStart(ctx context.Context, orgID, jobID string) error {
	return s.endStart(ctx, jobOf{orgID, jobID}, nil)
}

// RemoveOld removes one batch of old builds.
func (s *Service) RemoveOld(ctx context.Context) (more bool, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		more, err = s.removeOld(q)
		return err
	})
	return more, err
}

// RemovePipeline removes one batch of what belongs to a deleted pipeline.
func (s *Service) RemovePipeline(ctx context.Context, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		return s.removePipeline(q, &tasks.Due{Kind: pipelines.Removal, Key: id})
	})
}

// Waiting returns how many updates wait for a build.
func (s *Service) Waiting(buildID string) int {
	s.updates.mu.Lock()
	defer s.updates.mu.Unlock()
	return len(s.updates.waiting[buildID])
}
