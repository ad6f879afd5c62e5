package builds

import (
	"context"

	"stackyard/internal/db"
	"stackyard/internal/flow"
)

// DieAfter does something to a build as a process does that dies right after the commit.
func (s *Service) DieAfter(ctx context.Context, orgID, buildID string, do func(*flow.Run) error) error {
	_, err := s.commit(ctx, func(q *db.Q, then *followUps) error {
		u, err := s.open(q, orgID, buildID, then)
		if err != nil {
			return err
		}
		if err := do(u.run); err != nil {
			return err
		}
		return u.close()
	})
	return err
}

// RemoveOld removes one batch of old builds.
func (s *Service) RemoveOld(ctx context.Context) (more bool, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		more, err = s.removeOld(q)
		return err
	})
	return more, err
}

// Waiting returns how many words wait for a build.
func (s *Service) Waiting(buildID string) int {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	return len(s.turns.waiting[buildID])
}
