package agents

import (
	"time"

	"stackyard/internal/platform/db"
)

const (
	// removalTask removes agents that have been gone for long.
	removalTask = "agents-removal"
	removeEvery = time.Hour
	removeBatch = 200
	// keepGone is how long an agent that is gone can be looked at. The jobs that it ran then show none.
	keepGone = 90 * 24 * time.Hour
)

// removeOld removes agents that have been gone for long. Where there is an agent for each job, as stacks have it,
// there are as many of them as jobs.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	removed, err := removeDisconnected(q, s.clock().Add(-keepGone), removeBatch)
	return removed == removeBatch, err
}
