package builds

import (
	"context"

	"stackyard/internal/platform/db"
)

// Attempts returns all attempts of a job, oldest first, with the job itself.
func (s *Reader) Attempts(ctx context.Context, j *Job) (list []*Job, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = db.All(q, scanJob, selectJob+`
		WHERE j.build_id = $1 AND j.position = $2
		ORDER BY j.id
		LIMIT $3`, j.BuildID, j.Position, maxAttempts)
		if err != nil {
			return err
		}
		return describeJobs(q, list...)
	})
	return list, err
}
