package builds

import (
	"context"

	"stackyard/internal/domain/jobusage"
	"stackyard/internal/platform/db"
)

// Usage returns what a job used, nil if its agent did not report that.
func (s *Reader) Usage(ctx context.Context, jobID string) (used *jobusage.Usage, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		found, err := jobusage.Of(q, jobID)
		used = found[jobID]
		return err
	})
	return used, err
}
