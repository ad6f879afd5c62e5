package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// Agents report on the jobs of one build at the same time, and each report needs the build's lock. In each
// process one transaction at a time works on a build; reports that arrive meanwhile are applied together in
// the next one. So a build needs one connection however many agents work on it, and the statements about the
// build itself run once per batch. A report that finds the build idle is applied alone, in its own request.

const (
	// maxUpdates bounds the updates of one transaction.
	maxUpdates = 100
	// batchTimeout bounds the transaction of a batch, which outlives the requests in it.
	batchTimeout = 20 * time.Second
)

// A jobUpdate is a state change that an agent reported for a job, or the assignment of jobs to agents.
type jobUpdate struct {
	ctx    context.Context
	jobIDs []string
	// final is set when the update ends the job, which may stop other jobs. Final updates are batched with
	// each other only, so that no job passes through two states in one transaction, of which observers would
	// see only the second.
	final bool
	apply func(u *unit) error
	// done receives the result.
	done chan error
}

// report applies a state change that an agent reported for a job.
func (s *Service) report(ctx context.Context, orgID, jobID string, final bool, apply func(u *unit) error) error {
	buildID, err := s.buildOf(ctx, orgID, jobID)
	if err != nil {
		return err
	}
	return s.submit(ctx, orgID, buildID, []string{jobID}, final, apply)
}

// submit applies a change to jobs of a build. Changes to jobs of the same build that arrive while one is being applied
// are batched into the next transaction.
func (s *Service) submit(ctx context.Context, orgID, buildID string, jobIDs []string, final bool, apply func(u *unit) error) error {
	update := &jobUpdate{ctx, jobIDs, final, apply, make(chan error, 1)}
	if s.updates.enter(buildID, update) {
		defer func() {
			if s.updates.more(buildID) {
				go s.flush(orgID, buildID)
			}
		}()
		return s.update(ctx, orgID, buildID, apply)
	}
	select {
	case err := <-update.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// updateQueues hold the waiting updates, by build. A build has an entry while a transaction works on it. The
// zero value is ready to use.
type updateQueues struct {
	mu      sync.Mutex
	waiting map[string][]*jobUpdate
}

// enter reports whether the build is idle, so that the caller works on it now. Otherwise the update waits.
func (q *updateQueues) enter(buildID string, update *jobUpdate) (idle bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = map[string][]*jobUpdate{}
	}
	updates, busy := q.waiting[buildID]
	if busy {
		updates = append(updates, update)
	}
	q.waiting[buildID] = updates
	return !busy
}

// more reports whether updates wait for a build. If none do, the build is idle.
func (q *updateQueues) more(buildID string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting[buildID]) > 0 {
		return true
	}
	delete(q.waiting, buildID)
	return false
}

// next takes the updates that can be applied together with the oldest one: those with the same final flag, one
// per job.
func (q *updateQueues) next(buildID string) (batch []*jobUpdate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs := map[string]bool{}
	var left []*jobUpdate
	for _, update := range q.waiting[buildID] {
		repeats := slices.ContainsFunc(update.jobIDs, func(id string) bool { return jobs[id] })
		if len(batch) < maxUpdates && !repeats && (len(batch) == 0 || update.final == batch[0].final) {
			batch = append(batch, update)
		} else {
			left = append(left, update)
		}
		for _, id := range update.jobIDs {
			jobs[id] = true
		}
	}
	q.waiting[buildID] = left
	return batch
}

// flush applies the waiting updates of a build until none are left.
func (s *Service) flush(orgID, buildID string) {
	for more := true; more; more = s.updates.more(buildID) {
		batch := s.updates.next(buildID)
		batch = slices.DeleteFunc(batch, func(u *jobUpdate) bool { return u.ctx.Err() != nil })
		s.applyBatch(orgID, buildID, batch)
	}
}

// applyBatch applies updates, in one transaction if possible, and sends each its result. If the transaction
// fails for a reason that concerns all updates, like an unavailable database, all get that error and their
// callers retry. If one update may be the cause, the batch is split in halves.
func (s *Service) applyBatch(orgID, buildID string, batch []*jobUpdate) {
	if len(batch) == 0 {
		return
	}
	results, err := s.tryBatch(orgID, buildID, batch)
	if err != nil && core.KindOf(err) == 0 {
		s.log.Error("apply job updates failed", "build", buildID, "updates", len(batch), "error", err)
		if half := len(batch) / 2; half > 0 {
			s.applyBatch(orgID, buildID, batch[:half])
			s.applyBatch(orgID, buildID, batch[half:])
			return
		}
	}
	for i, update := range batch {
		if err != nil {
			update.done <- err
		} else {
			update.done <- results[i]
		}
	}
}

// tryBatch applies updates in one transaction and returns the result of each. A refused update changes nothing
// and does not affect the others.
func (s *Service) tryBatch(orgID, buildID string, batch []*jobUpdate) (results []error, err error) {
	defer core.CatchPanic(&err)
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	err = s.update(ctx, orgID, buildID, func(u *unit) error {
		results = make([]error, len(batch))
		if err := u.run.Prefetch(jobIDsOf(batch)...); err != nil {
			return err
		}
		for i, update := range batch {
			before := u.run.Edits()
			err := update.apply(u)
			if err != nil && (!isRefusal(err) || u.run.Edits() != before) {
				return err
			}
			results[i] = refused(err)
		}
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = busy(err)
	}
	return results, err
}

// isRefusal reports whether an error is meant for the caller and not a failure of the server.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*flow.MoveError](err); ok {
		return true
	}
	kind := core.KindOf(err)
	return kind != 0 && kind != core.Unavailable
}

func jobIDsOf(batch []*jobUpdate) []string {
	var ids []string
	for _, update := range batch {
		ids = append(ids, update.jobIDs...)
	}
	return ids
}
