package lifecycle

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
)

// nextNumber reads the number of a pipeline's next build, and locks it until the end of the transaction. See
// [db.EachLater].
func nextNumber(q *db.Q, pipelineID string, into *int) error {
	return db.EachLater(q, func(scan db.Scan) error { return scan(into) }, `
		INSERT INTO build_numbers (pipeline_id, newest) VALUES ($1, 1)
		ON CONFLICT (pipeline_id) DO UPDATE SET newest = build_numbers.newest + 1
		RETURNING newest`, pipelineID)
}

// insertBuild adds a build, without its jobs.
func insertBuild(q *db.Q, b *builds.Build, origin string) error {
	err := q.Later(`
		INSERT INTO builds (id, organization_id, pipeline_id, cluster_id, number, branch, commit_name, source, creator_id,
			state, tally, triggered_by, root_build, rebuilt_from, created_at, scheduled_at, queue_place, origin,
			waiting_jobs, scheduled_jobs, running_jobs, started_at, failing_at, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)`,
		b.ID, b.OrganizationID, b.PipelineID, db.Text(b.ClusterID), b.Number, b.Branch, b.Commit, b.Source, b.Creator.IDOrNull(),
		b.State, db.JSON(b.Counts), db.Text(b.TriggeredBy), db.Text(b.Root), db.Text(b.RebuiltFrom), db.Micros(b.CreatedAt), db.Micros(b.ScheduledAt), b.QueuePlace, db.Text(origin),
		b.Jobs.WaitingJobs, b.Jobs.ScheduledJobs, b.Jobs.RunningJobs, db.Micros(b.StartedAt), db.Micros(b.FailingAt), db.Micros(b.FinishedAt))
	if err != nil {
		return err
	}
	return q.Later(`
		INSERT INTO build_details (build_id, message, tag, env, pipeline_env, author, pull_request, clean_checkout, source_event)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		b.ID, db.Text(b.Message), db.Text(b.Tag), db.JSON(orEmpty(b.Env)), db.JSON(orEmpty(b.PipelineEnv)),
		db.JSON(b.Author), db.JSON(b.PullRequest), b.CleanCheckout, db.JSON(b.SourceEvent))
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
