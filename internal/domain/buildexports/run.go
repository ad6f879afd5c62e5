package buildexports

import (
	"context"
	"sync"
	"time"

	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

const (
	// exportTask is the kind of the task that exports builds of an organization. Its key is the organization's id.
	exportTask = "build-export"
	// runTimeout bounds one run. An export that takes longer continues with the logs that are missing.
	runTimeout = 15 * time.Minute
	// runBuilds bounds the builds of one run, and atOnce how many of them are exported at the same time.
	runBuilds, atOnce = 16, 4
	// recordTimeout bounds saving the result of an export when the run has no time left.
	recordTimeout = 3 * time.Second

	// minBackoff and maxBackoff bound the time between two attempts of a build, which doubles with each.
	minBackoff, maxBackoff = 30 * time.Second, time.Hour
	// giveUpAfter is how long the export of a build is tried.
	giveUpAfter = 7 * 24 * time.Hour
	// dropBatch bounds the rows that are removed at once when an organization stops exporting builds.
	dropBatch = 1000
)

// Background registers the task that exports builds.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(exportTask, tasks.Limits{Timeout: runTimeout}, func(ctx context.Context, t *tasks.Due) error { return s.run(ctx, t.Key) })
}

// run exports builds of an organization that are due. If the first fails, the bucket may not work: run returns the
// error, so that the task waits longer each time.
func (s *Service) run(ctx context.Context, orgID string) error {
	org, to, err := s.destination(ctx, orgID)
	if err != nil {
		return err
	}
	if to == (settings.Destination{}) {
		return s.drop(ctx, orgID)
	}
	var list []pending
	err = s.DB.Read(ctx, func(q *db.Q) (err error) {
		list, err = dueBuilds(q, orgID, s.Clock(), runBuilds)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.exportAll(ctx, org, to, list); err != nil {
		return err
	}
	return s.DB.Write(ctx, func(q *db.Q) error {
		next, err := nextRun(q, orgID)
		if err != nil || next.IsZero() {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: exportTask, Key: orgID, RunAt: next})
	})
}

// exportAll exports the first build and, if that works, the others. Errors of the others are only recorded.
func (s *Service) exportAll(ctx context.Context, org *identity.Organization, to settings.Destination, list []pending) error {
	if len(list) == 0 {
		return nil
	}
	bucket, err := blob.OpenBucket(to.Strategy, to.Location)
	if err != nil {
		return err
	}
	defer bucket.CloseIdle()
	if err := s.attempt(ctx, org, bucket, list[0]); err != nil {
		return err
	}
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, p := range list[1:] {
		slots <- struct{}{}
		running.Go(func() {
			s.attempt(ctx, org, bucket, p)
			<-slots
		})
	}
	running.Wait()
	return ctx.Err()
}

// attempt exports a build and records the result. It returns why the build was not exported.
func (s *Service) attempt(ctx context.Context, org *identity.Organization, bucket *blob.Store, p pending) error {
	cause := s.export(ctx, org, bucket, p)
	now := s.Clock()
	givenUp := cause != nil && now.Sub(p.createdAt) > giveUpAfter
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := s.DB.Write(ctx, func(q *db.Q) error {
		if cause == nil || givenUp {
			return remove(q, p)
		}
		return postpone(q, p, now.Add(backoff(p.attempts)), cause)
	})
	if cause == nil {
		return err
	}
	s.Log.Warn("export build failed", "organization", org.Slug, "build", p.buildID, "attempt", p.attempts+1, "given_up", givenUp, "error", cause)
	return cause
}

// backoff returns how long to wait after another attempt failed.
func backoff(failed int) time.Duration { return min(minBackoff<<min(failed, 10), maxBackoff) }

// drop removes the builds of an organization that no longer exports them.
func (s *Service) drop(ctx context.Context, orgID string) error {
	for {
		var dropped int64
		err := s.DB.Write(ctx, func(q *db.Q) (err error) {
			dropped, err = q.DeleteSome(dropBatch, "build_exports", `organization_id = $1`, orgID)
			return err
		})
		if err != nil || dropped < dropBatch {
			return err
		}
	}
}
