package events

import "stackyard/internal/platform/db"

// RemoveBatch is how many events are removed at once.
const RemoveBatch = removeBatch

// RemoveOld removes a batch of old events.
func (s *Service) RemoveOld(q *db.Q) (more bool, err error) { return s.removeOld(q) }
