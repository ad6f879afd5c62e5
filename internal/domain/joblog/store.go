package joblog

import (
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A record is the database row of a log.
type record struct {
	ended       bool // whether the job has ended
	deleted     bool
	archive     string // the key of the archive; "": there is none
	archiveSize int64
	indexSize   int64
	settled     bool // whether the archive contains the whole log
	spilled     bool // whether bytes of it are, or were, in the blob store
	headerTimes []int64

	// generation counts how often the log was deleted while the job ran. deletedBytes and deletedSections were
	// removed from its beginning by that, as the agent counts them.
	generation      int64
	deletedBytes    int64
	deletedSections int
}

const noJob = "No job found"

// find returns the record of a job's log, or a NotFound error if the job does not exist.
func find(q *db.Q, job Job) (record, error) {
	return db.Find(q, noJob, func(scan db.Scan) (r record, err error) {
		var state flow.JobState
		var deletedAt time.Time
		err = scan(&state, db.ToText(&r.archive), &r.archiveSize, &r.indexSize, &r.settled, &r.spilled, db.ToJSON(&r.headerTimes), db.ToTime(&deletedAt),
			&r.generation, &r.deletedBytes, &r.deletedSections)
		r.ended, r.deleted = state.Ended(), !deletedAt.IsZero()
		return r, err
	}, `
		SELECT j.state, l.archive, COALESCE(l.archive_size, 0), COALESCE(l.index_size, 0), COALESCE(l.settled, FALSE), COALESCE(l.spilled, FALSE), l.header_times, l.deleted_at,
			COALESCE(l.generation, 0), COALESCE(l.deleted_bytes, 0), COALESCE(l.deleted_sections, 0)
		FROM jobs j LEFT JOIN job_logs l ON l.job_id = j.id
		WHERE j.organization_id = $1 AND j.id = $2`, job.OrganizationID, job.ID)
}

// lock creates the row of a job's log if needed, and locks it until the end of the transaction.
func lock(q *db.Q, job Job) (record, error) {
	_, err := q.Exec(`
		INSERT INTO job_logs (job_id, organization_id, settled, spilled)
		SELECT id, organization_id, FALSE, FALSE FROM jobs WHERE organization_id = $1 AND id = $2
		ON CONFLICT (job_id) DO UPDATE SET settled = job_logs.settled`, job.OrganizationID, job.ID)
	if err != nil {
		return record{}, err
	}
	return find(q, job)
}

// save writes the record of a log whose row is locked.
func save(q *db.Q, job Job, r record) error {
	_, err := q.Exec(`
		UPDATE job_logs
		SET archive = $3, archive_size = $4, index_size = $5, settled = $6, header_times = $7,
			generation = $8, deleted_bytes = $9, deleted_sections = $10
		WHERE organization_id = $1 AND job_id = $2`,
		job.OrganizationID, job.ID, db.Text(r.archive), r.archiveSize, r.indexSize, r.settled, db.JSON(r.headerTimes),
		r.generation, r.deletedBytes, r.deletedSections)
	return err
}

// settle records that an archive contains the whole log. It reports false if the log was deleted or no longer
// has the archive before.
func settle(q *db.Q, job Job, before string, r record) (settled bool, err error) {
	n, err := q.Exec(`
		INSERT INTO job_logs (job_id, organization_id, archive, archive_size, index_size, settled, spilled)
		SELECT id, organization_id, $3, $4, $5, TRUE, TRUE FROM jobs WHERE organization_id = $1 AND id = $2
		ON CONFLICT (job_id) DO UPDATE SET
			archive = excluded.archive, archive_size = excluded.archive_size, index_size = excluded.index_size, settled = TRUE
		WHERE job_logs.deleted_at IS NULL AND COALESCE(job_logs.archive, '') = $6`,
		job.OrganizationID, job.ID, db.Text(r.archive), r.archiveSize, r.indexSize, before)
	return n == 1, err
}

// markDeleted records that a log was deleted, and clears all other columns.
func markDeleted(q *db.Q, job Job, now time.Time) error {
	_, err := q.Exec(`
		UPDATE job_logs
		SET archive = NULL, archive_size = NULL, index_size = NULL, settled = TRUE, header_times = NULL, deleted_at = $3
		WHERE organization_id = $1 AND job_id = $2`, job.OrganizationID, job.ID, db.Micros(now))
	return err
}
