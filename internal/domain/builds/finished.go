package builds

import (
	"time"

	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/db"
)

// Finished is the place of a build in the order in which builds of an organization finished.
type Finished struct {
	At time.Time
	ID string
}

// A FinishedBuild is a finished build and its pipeline.
type FinishedBuild struct {
	Finished
	PipelineID string
}

// FinishedAfter returns some builds of an organization that finished after another and before a time, in that order. A
// build that is started again and finishes later has a later place.
func FinishedAfter(q *db.Q, orgID string, after Finished, before time.Time, limit int) ([]FinishedBuild, error) {
	return db.All(q, func(scan db.Scan) (b FinishedBuild, err error) {
		return b, scan(&b.ID, &b.PipelineID, db.ToTime(&b.At))
	}, `
		SELECT id, pipeline_id, finished_at FROM builds
		WHERE organization_id = $1 AND finished_at IS NOT NULL AND finished_at >= $2 AND finished_at < $4 AND (finished_at > $2 OR id > $3)
		ORDER BY finished_at, id LIMIT $5`, orgID, after.At.UnixMicro(), after.ID, before.UnixMicro(), limit)
}

// TotalsOf returns the totals of an organization. Its cost grows with the builds of the period.
func TotalsOf(q *db.Q, orgID string, from, to time.Time) (t usage.Totals, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FROM builds WHERE organization_id = $1 AND created_at >= $2 AND created_at < $3`,
		orgID, from.UnixMicro(), to.UnixMicro()).Scan(&t.Builds)
	if err != nil || t.Builds == 0 {
		return t, err
	}
	var micros int64
	err = q.QueryRow(`
		SELECT COUNT(*), CAST(COALESCE(SUM(j.finished_at - j.started_at), 0) AS BIGINT)
		FROM builds b JOIN jobs j ON j.build_id = b.id
		WHERE b.organization_id = $1 AND b.created_at >= $2 AND b.created_at < $3 AND j.type = 'script' AND j.started_at IS NOT NULL`,
		orgID, from.UnixMicro(), to.UnixMicro()).Scan(&t.Jobs, &micros)
	t.JobSeconds = micros / 1_000_000
	return t, err
}
