package lifecycle

import (
	"context"
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// ruleSetsTask is the task that removes unused rule sets.
const (
	ruleSetsTask  = "rule-set-removal"
	ruleSetsEvery = 24 * time.Hour
)

// Background registers the background work of builds: deadlines, expiry, removal and follow-ups.
func (s *Service) Background(r *tasks.Runner, blobs *blob.Store) {
	r.HandleTx(deadlineTask, s.passDeadline)
	r.HandleTx(expiryTask, s.expireJobs)
	r.HandleTx(rulesTask, s.addRuleSets)
	r.HandleTx(settings.ExpiryChanged, s.applyExpiry)
	r.Sweep(removalTask, removeEvery, s.removeOld)
	r.Sweep(ruleSetsTask, ruleSetsEvery, func(q *db.Q) (more bool, err error) { return dispatch.RemoveUnused(q, s.clock()) })
	r.HandleTx(pipelines.Removal, s.removePipeline)
	r.Handle(pipelines.Removed, tasks.Limits{Timeout: time.Minute}, s.afterPipelineDeleted)
	r.Handle(pipelines.BytesRemoval, tasks.Limits{Timeout: 5 * time.Minute}, func(ctx context.Context, t *tasks.Due) error {
		return blobs.DeleteAll(ctx, t.Key)
	})
	r.Handle(followUpTask, tasks.Limits{Timeout: time.Minute}, s.follow)
}
