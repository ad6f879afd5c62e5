package retention

import (
	"errors"
	"time"

	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/caches"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

const (
	// removalRows is about the number of rows that one transaction removes.
	removalRows = 1_000
	// removalCaches is how many caches of a pipeline one transaction removes.
	removalCaches = 20
	// rowsOfJob and rowsOfStep are about the numbers of rows that are deleted with a job and with a step.
	rowsOfJob, rowsOfStep = 10, 2
)

// A removal is the progress of removing a deleted pipeline.
type removal struct {
	// Unfinished is set while builds that have not ended are being removed.
	Unfinished bool `json:"unfinished"`
}

// RemovePipeline removes a part of a deleted pipeline and schedules itself again until nothing is left. Its
// builds, which are already hidden, are removed in parts; unfinished ones first, because other builds may wait
// for them. The task's key is the pipeline id.
func RemovePipeline(q *db.Q, t *tasks.Due, now time.Time) error {
	orgID, err := pipelines.DeletedFrom(q, t.Key)
	if err != nil || orgID == "" {
		return err
	}
	var r removal
	if err := t.Payload(&r); err != nil {
		return err
	}
	unblockOthers := tasks.Task{Kind: pipelines.Removed, Key: orgID, RunAt: now}
	for left := removalRows; left > 0; {
		buildID, unfinished, err := buildToRemove(q, t.Key)
		if err != nil {
			return err
		}
		if buildID == "" {
			removed, err := caches.RemoveOf(q, t.Key, removalCaches, now)
			if err != nil {
				return err
			}
			if removed > 0 {
				break // the rest follows
			}
			if err := pipelines.RemoveDeleted(q, t.Key); err != nil {
				return err
			}
			if err := pipelines.RemoveBytes(q, pipelines.Prefix(orgID, t.Key), now); err != nil {
				return err
			}
			return tasks.Add(q, unblockOthers)
		}
		if r.Unfinished && !unfinished {
			if err := tasks.Add(q, unblockOthers); err != nil {
				return err
			}
		}
		r.Unfinished = unfinished
		if left, err = removePart(q, buildID, left); err != nil {
			return err
		}
	}
	return tasks.Add(q, tasks.Task{Kind: t.Kind, Key: t.Key, Payload: r, RunAt: now})
}

// buildToRemove returns a build of a pipeline and whether it is unfinished; no id when there is none.
func buildToRemove(q *db.Q, pipelineID string) (id string, unfinished bool, err error) {
	for _, condition := range []string{`finished_at IS NULL`, `finished_at IS NOT NULL`} {
		err = q.QueryRow(`SELECT id FROM builds WHERE pipeline_id = $1 AND `+condition+` LIMIT 1`, pipelineID).Scan(&id)
		if !errors.Is(err, db.ErrNoRows) {
			return id, condition == `finished_at IS NULL`, err
		}
	}
	return "", false, nil
}

// A part of a build is removed by the package that owns it.
type part struct {
	remove func(q *db.Q, buildID string, limit int) (int64, error)
	rows   int // about how many rows go with one
}

// parts are the parts of a build, in the order in which they are removed.
var parts = []part{
	{artifacts.RemoveSome, 1},
	{annotations.RemoveSome, 1},
	{some("step_dependencies", `step_id IN (SELECT id FROM steps WHERE build_id = $1)`), 1},
	{metadata.RemoveSome, 1},
	{some("step_uploads", `build_id = $1`), 1},
	{some("step_updates", `build_id = $1`), 1},
	{joblog.RemoveSome, 1},
	{some("jobs", `build_id = $1`), rowsOfJob},
	{some("steps", `build_id = $1`), rowsOfStep},
	{some("builds", `id = $1`), 2},
}

// some returns a function that removes rows of a table that match a condition on the build.
func some(table, condition string) func(q *db.Q, buildID string, limit int) (int64, error) {
	return func(q *db.Q, buildID string, limit int) (int64, error) {
		return q.DeleteSome(limit, table, condition, buildID)
	}
}

// removePart removes at most about limit rows of a build, and the build itself with the last ones. It returns
// how much of the limit is left, 0 when the build may have more rows.
func removePart(q *db.Q, buildID string, limit int) (left int, err error) {
	if err := q.Lock("builds", buildID); err != nil {
		return 0, err
	}
	for _, part := range parts {
		n, err := part.remove(q, buildID, (limit+part.rows-1)/part.rows)
		if err != nil {
			return 0, err
		}
		if limit -= int(n) * part.rows; limit <= 0 {
			return 0, nil
		}
	}
	return limit, nil
}

// LeaveCluster detaches at most limit builds from a deleted cluster, and returns how many. It skips builds that
// are being changed.
func LeaveCluster(q *db.Q, clusterID string, limit int) (n int64, err error) {
	ids, err := db.Strings(q, `SELECT id FROM builds WHERE cluster_id = $1 LIMIT $2`+q.SkipLocked(), clusterID, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	in, arg := q.In("id", 1, ids)
	return q.Exec(`UPDATE builds SET cluster_id = NULL WHERE `+in, arg)
}
