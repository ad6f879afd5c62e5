package joblog

import (
	"context"
	"strings"

	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// An Archive is the object of a sealed log.
type Archive struct {
	JobID string
	Key   string // "" if there is none
}

// ArchivesAfter returns the archives of some logs, in the order of their jobs, after a job.
func ArchivesAfter(q *db.Q, jobID string, limit int) ([]Archive, error) {
	return db.All(q, func(scan db.Scan) (a Archive, err error) { return a, scan(&a.JobID, db.ToText(&a.Key)) },
		`SELECT job_id, archive FROM job_logs WHERE job_id > $1 ORDER BY job_id LIMIT $2`, jobID, limit)
}

// MarkMissing records that the archive of a log is gone: the log counts as deleted. It does nothing if the log has
// another archive meanwhile.
func (s *Service) MarkMissing(ctx context.Context, jobID, archive string) error {
	parts := strings.Split(archive, "/") // see prefix
	if len(parts) < 5 || parts[4] != jobID {
		return nil
	}
	job := Job{OrganizationID: parts[0], PipelineID: parts[1], BuildID: parts[2], ID: jobID}
	err := s.db.Write(ctx, func(q *db.Q) error {
		r, err := lock(q, job)
		if err != nil || r.archive != archive || !r.ended {
			return err
		}
		freed, err := s.markRemoved(q, job, r)
		if err != nil {
			return err
		}
		return usage.Add(q, job.OrganizationID, usage.Logs, usage.Stored{Bytes: -freed.Bytes, Objects: -freed.Objects})
	})
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	return err
}
