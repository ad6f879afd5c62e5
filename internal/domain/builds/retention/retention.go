// Package retention removes builds: finished ones after the retention period of their organization, and those of
// deleted pipelines.
//
// It works in bounded batches. Rows of other packages are removed by those packages, logs and artifacts by a task
// that deletes their blobs.
package retention

import (
	"context"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// Background registers the tasks that remove builds and deleted pipelines.
func Background(r *tasks.Runner, blobs *blob.Store, clock core.Clock) {
	r.Sweep(removalTask, removeEvery, func(q *db.Q) (more bool, err error) { return RemoveOld(q, clock()) })
	r.HandleTx(pipelines.Removal, func(q *db.Q, t *tasks.Due) error { return RemovePipeline(q, t, clock()) })
	r.Handle(pipelines.BytesRemoval, tasks.Limits{Timeout: 5 * time.Minute}, func(ctx context.Context, t *tasks.Due) error {
		return blobs.DeleteAll(ctx, t.Key)
	})
}
