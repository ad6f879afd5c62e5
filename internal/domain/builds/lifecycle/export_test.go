package lifecycle

import (
	"context"
)

// EndStart does the second half of starting the build of a trigger job: the build was made.
func (s *Service) EndStart(ctx context.Context, orgID, jobID string) error {
	return s.endStart(ctx, jobOf{orgID, jobID}, nil)
}

// Waiting returns how many updates wait for a build.
func (s *Service) Waiting(buildID string) int {
	s.updates.mu.Lock()
	defer s.updates.mu.Unlock()
	return len(s.updates.waiting[buildID])
}
