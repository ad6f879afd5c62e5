package testresults

import (
	"context"
	"time"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

const (
	retentionTask  = "test-results-retention"
	retentionEvery = time.Hour
	// retentionTimeout bounds one round of the sweep, which removes one batch.
	retentionTimeout = time.Minute
	// removalTimeout bounds an attempt to remove all results of a suite.
	removalTimeout = 10 * time.Minute
	// removeRows bounds what one transaction removes.
	removeRows = 5000
)

// Background registers the removal of old results and of the results of deleted suites.
func (s *Service) Background(r *tasks.Runner) {
	r.Repeat(retentionTask, retentionEvery, retentionTimeout, s.removeOld)
	r.Handle(suites.Removal, tasks.Limits{Timeout: removalTimeout}, s.removeSuite)
}

// removeOld removes a batch of results that are older than their organization keeps them, and reports whether there may
// be more.
func (s *Service) removeOld(ctx context.Context) (more bool, err error) {
	var organizations []identity.Organization
	suitesOf := make(map[string][]string)
	err = s.db.Read(ctx, func(q *db.Q) error {
		if organizations, err = identity.Organizations(q); err != nil {
			return err
		}
		suitesOf, err = suites.IDs(q)
		return err
	})
	if err != nil {
		return false, err
	}
	for _, org := range organizations {
		kept := quotas.Of(&org).TestRetentionDays
		if kept == 0 {
			continue
		}
		before := s.clock().AddDate(0, 0, -kept)
		if more, err := s.removeBatch(ctx, oldRuns{organizationID: org.ID, before: before}); more || err != nil {
			return more, err
		}
		for _, id := range suitesOf[org.ID] {
			if more, err := s.removeBatch(ctx, oldTests{suiteID: id, before: before}); more || err != nil {
				return more, err
			}
		}
	}
	return false, nil
}

// removeSuite removes all results of a deleted suite, and then its row.
func (s *Service) removeSuite(ctx context.Context, t *tasks.Due) error {
	var deleted bool
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		deleted, err = suites.IsDeleted(q, t.Key)
		return err
	})
	if err != nil || !deleted {
		return err
	}
	forever := s.clock().AddDate(10, 0, 0)
	for _, old := range []removable{oldRuns{suiteID: t.Key, before: forever}, oldTests{suiteID: t.Key, before: forever, all: true}} {
		for more := true; more; {
			if more, err = s.removeBatch(ctx, old); err != nil {
				return err
			}
		}
	}
	return s.db.Write(ctx, func(q *db.Q) error { return suites.RemoveDeleted(q, t.Key) })
}

// removable is something of which a batch can be removed in a transaction.
type removable interface {
	// exists reports whether there is something to remove.
	exists(q *db.Q) (bool, error)
	// remove removes a batch, and reports whether there may be more.
	remove(q *db.Q) (more bool, err error)
}

// removeBatch removes a batch, and reports whether there may be more. It writes nothing when there is nothing to remove.
func (s *Service) removeBatch(ctx context.Context, old removable) (more bool, err error) {
	err = s.results.Read(ctx, func(q *db.Q) error {
		more, err = old.exists(q)
		return err
	})
	if err != nil || !more {
		return false, err
	}
	err = s.results.Write(ctx, func(q *db.Q) error {
		more, err = old.remove(q)
		return err
	})
	return more, err
}
