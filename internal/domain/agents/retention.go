package agents

import (
	"time"

	"stackyard/internal/platform/db"
)

const (
	// removalTask removes agents that left long ago.
	removalTask = "agents-removal"
	removeEvery = time.Hour
	removeBatch = 200
	// keepGone is how long an agent is kept after it has left. After that the jobs that it ran show no agent.
	keepGone = 90 * 24 * time.Hour
)

// removeOld removes agents that left long ago. With stacks there are as many agents as jobs.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	removed, err := removeDisconnected(q, s.clock().Add(-keepGone), removeBatch)
	return removed == removeBatch, err
}
