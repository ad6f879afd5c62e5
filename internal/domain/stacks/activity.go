package stacks

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/lru"
)

// activity collects what stacks do in requests that write nothing, and writes it in batches. It is best
// effort: activity is lost when the process dies, and when it comes faster than it is written.
type activity struct {
	db  *db.DB
	log *slog.Logger

	mu           sync.Mutex
	calls        map[string]time.Time // last calls, by stack
	polls        map[string]time.Time // last polls, by queue
	milestones   []milestoneBatch
	pendingJobs  int                          // jobs in milestones
	recent       *lru.Cache[string, struct{}] // milestones that were recorded lately
	writtenPolls map[string]time.Time         // last polls in the database, by queue
	dirty        chan struct{}                // holds a token while something is to be written
}

const (
	// pollStaleAfter is how old the stored poll of a queue can be while further polls are only collected. The
	// first poll after that is written before its response, so that the queue shows as connected as soon as a
	// stack has started.
	pollStaleAfter = time.Minute
	// flushDelay is how long activity is collected before it is written.
	flushDelay = 5 * time.Second
	// maxPendingJobs bounds the milestones to be written, maxRecent those known to be recorded.
	maxPendingJobs, maxRecent = 20_000, 100_000
)

func newActivity(d *db.DB, log *slog.Logger) *activity {
	return &activity{
		db: d, log: log,
		calls:        map[string]time.Time{},
		polls:        map[string]time.Time{},
		recent:       lru.New[string, struct{}](maxRecent),
		writtenPolls: map[string]time.Time{},
		dirty:        make(chan struct{}, 1),
	}
}

// A milestoneBatch is one milestone that several jobs reached at the same time.
type milestoneBatch struct {
	what     timeline.MilestoneKind
	at       time.Time
	stackKey string
	jobs     []string
}

// markDirty requests a flush.
func (a *activity) markDirty() {
	select {
	case a.dirty <- struct{}{}:
	default:
	}
}

// recordCall records that a stack called.
func (a *activity) recordCall(stackID string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[stackID] = at
	a.markDirty()
}

// recordPoll records that a stack polled a queue and was shown jobs. It reports whether the stored poll is
// stale, so that the caller must write this one now.
func (a *activity) recordPoll(queueID, stackKey string, jobs []scheduledJob, at time.Time) (stale bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.polls[queueID] = at
	batch := milestoneBatch{what: timeline.Listed, at: at, stackKey: stackKey}
	for _, j := range jobs {
		a.addJob(&batch, j.ID)
	}
	a.addBatch(batch)
	return at.Sub(a.writtenPolls[queueID]) > pollStaleAfter
}

// writePoll writes a poll of a queue. A poll that cannot be written is written with the next flush.
func (a *activity) writePoll(ctx context.Context, queueID string, at time.Time) {
	err := a.db.Write(ctx, func(q *db.Q) error { return clusters.RecordPolls(q, []string{queueID}, at) })
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("write queue poll failed", "queue", queueID, "error", err)
		}
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writtenPolls[queueID] = at
}

// recordTokens records that tokens were issued.
func (a *activity) recordTokens(stackKey string, tokens []token, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := milestoneBatch{what: timeline.TokenIssued, at: at, stackKey: stackKey}
	for _, t := range tokens {
		a.addJob(&batch, t.jobID)
	}
	a.addBatch(batch)
}

// addJob adds a job to a batch unless the milestone was recorded lately. Recording it again does no harm.
// The caller holds mu.
func (a *activity) addJob(batch *milestoneBatch, jobID string) {
	key := string(batch.what) + jobID
	if _, recorded := a.recent.Get(key); recorded || a.pendingJobs >= maxPendingJobs {
		return
	}
	a.recent.Add(key, struct{}{})
	batch.jobs = append(batch.jobs, jobID)
	a.pendingJobs++
}

// addBatch adds a batch to the next flush. The caller holds mu.
func (a *activity) addBatch(batch milestoneBatch) {
	if len(batch.jobs) > 0 {
		a.milestones = append(a.milestones, batch)
	}
	a.markDirty()
}

// Run writes collected activity, flushDelay after the first of it, until ctx is done; then the rest.
func (s *Service) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return s.Flush(context.WithoutCancel(ctx))
		case <-s.activity.dirty:
		}
		select {
		case <-ctx.Done():
		case <-time.After(flushDelay):
		}
		if err := s.Flush(context.WithoutCancel(ctx)); err != nil {
			s.log.Warn("flush stack activity failed", "error", err)
		}
	}
}

// Flush writes collected activity. Each kind has its own transaction, so that no lock of one is held while
// another waits.
func (s *Service) Flush(ctx context.Context) error {
	a := s.activity
	a.mu.Lock()
	calls, polls, milestones := a.calls, a.polls, a.milestones
	a.calls, a.polls, a.milestones, a.pendingJobs = map[string]time.Time{}, map[string]time.Time{}, nil, 0
	maps.Copy(a.writtenPolls, polls)
	a.mu.Unlock()
	var errs []error
	write := func(fn func(q *db.Q) error) { errs = append(errs, a.db.Write(ctx, fn)) }
	if len(calls) > 0 {
		write(func(q *db.Q) error { return updateConnected(q, slices.Collect(maps.Keys(calls)), latest(calls)) })
	}
	if len(polls) > 0 {
		write(func(q *db.Q) error {
			return clusters.RecordPolls(q, slices.Collect(maps.Keys(polls)), latest(polls))
		})
	}
	for _, m := range milestones {
		write(func(q *db.Q) error { return timeline.RecordAll(q, m.what, m.at, m.stackKey, m.jobs) })
	}
	return errors.Join(errs...)
}

// latest returns the latest of some times. A flush stores it for all: they are at most flushDelay apart.
func latest(times map[string]time.Time) (at time.Time) {
	for _, t := range times {
		if t.After(at) {
			at = t
		}
	}
	return at
}
