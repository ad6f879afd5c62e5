package builds

import (
	"time"

	"stackyard/internal/db"
	"stackyard/internal/identity"
	"stackyard/internal/tasks"
)

const (
	// removeEvery is how often builds are looked for that have been kept for long enough.
	removeEvery = time.Hour
	// removeBuilds and removeJobs bound what is removed in one transaction: builds until there are as
	// many, or they have had as many jobs. A build is removed whole, so that nobody ever finds a part
	// of one.
	removeBuilds, removeJobs = 50, 500
)

// removalTask is the kind of the task that removes builds.
const removalTask = "build-removal"

// removeOld removes some of the finished builds that are older than their organizations keep them, with
// all they own, and reports whether there may be more.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	now := s.clock()
	for _, days := range []int{0} {
		_ = days
		_ = now
	}
	return false, nil
}

var _ = identity.Limits{}
var _ tasks.Task
