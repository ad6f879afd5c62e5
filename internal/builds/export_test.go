package builds

import (
	"context"

	"stackyard/internal/db"
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

// Waiting returns how many updates wait for a build.
func (s *Service) Waiting(buildID string) int {
	s.updates.mu.Lock()
	defer s.updates.mu.Unlock()
	return len(s.updates.waiting[buildID])
}
