package pipelines

import "stackyard/internal/db"

// Counts are the builds and jobs of a pipeline that have not ended.
type Counts struct {
	ScheduledBuilds, RunningBuilds          int
	ScheduledJobs, RunningJobs, WaitingJobs int
}

// countLive fills in the counts of pipelines. They are sums over the builds that have not ended, each
// of which knows its own jobs; a row of totals for each pipeline would be where all its jobs wait for
// one another.
func countLive(q *db.Q, pipelines ...*Pipeline) error {
	byID := make(map[string]*Pipeline, len(pipelines))
	ids := make([]string, len(pipelines))
	for i, p := range pipelines {
		byID[p.ID], ids[i] = p, p.ID
	}
	in, arg := q.In("b.pipeline_id", 1, ids)
	type row struct {
		id string
		Counts
	}
	rows, err := db.All(q, func(scan db.Scan) (r row, err error) {
		return r, scan(&r.id, &r.ScheduledBuilds, &r.RunningBuilds, &r.ScheduledJobs, &r.RunningJobs, &r.WaitingJobs)
	}, `
		SELECT b.pipeline_id,
			SUM(CASE WHEN b.state IN ('creating', 'scheduled') THEN 1 ELSE 0 END),
			SUM(CASE WHEN b.state IN ('running', 'failing', 'canceling') THEN 1 ELSE 0 END),
			CAST(SUM(b.scheduled_jobs) AS BIGINT), CAST(SUM(b.running_jobs) AS BIGINT), CAST(SUM(b.waiting_jobs) AS BIGINT)
		FROM builds b
		WHERE b.finished_at IS NULL AND `+in+`
		GROUP BY b.pipeline_id`, arg)
	for _, r := range rows {
		byID[r.id].Counts = r.Counts
	}
	return err
}
