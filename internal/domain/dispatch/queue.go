package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// maxBatch bounds the jobs of one rule set that one scan hands out.
	maxBatch = 250
	// scanTimeout bounds one scan.
	scanTimeout = 10 * time.Second
)

// A queue is the in-memory state of one queue: its waiters, and what the last scan left. While agents wait,
// exactly one goroutine matches jobs with agents.
type queue struct {
	dispatcher  *Dispatcher
	id          string
	woken       <-chan struct{} // signaled when there may be more jobs
	unsubscribe func()
	used        time.Time     // when an agent last waited; guarded by the dispatcher's lock
	poke        chan struct{} // signaled when the goroutine has work

	mu        sync.Mutex
	running   bool // the goroutine is running
	waiting   []*waiter
	seq       uint64
	profiles  profiles
	share     quotas.FairShare
	picked    map[string]int    // number of jobs being assigned, by rule set
	assigning map[string]string // jobs being assigned, with their pipelines
	// stale is set when there may be more jobs than the last scan saw. Otherwise remaining has the rule sets
	// that may have jobs, with their rules; it is nil during a scan.
	stale     bool
	remaining map[string][]string
	backoff   backoff
}

func newQueue(d *Dispatcher, id string) *queue {
	q := &queue{
		dispatcher: d,
		id:         id,
		used:       d.clock(),
		poke:       make(chan struct{}, 1),
		profiles:   profiles{},
		picked:     map[string]int{},
		assigning:  map[string]string{},
		stale:      true,
	}
	q.woken, q.unsubscribe = d.bus.Subscribe(Topic(id))
	return q
}

// idle reports whether no agent waits and no job is being assigned.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.running && len(q.assigning) == 0
}

// add adds a waiter. It wakes the goroutine only if there may be a job for it.
func (q *queue) add(w *waiter) {
	q.drainWakeups()
	q.mu.Lock()
	defer q.mu.Unlock()
	w.profile, q.share = q.profiles.get(w.Tags, w.TagsKey), w.FairShare
	if w.brief && !q.stale && q.remaining != nil && !q.hasJobFor(w) {
		w.answer <- ""
		return
	}
	q.enqueue(w)
}

// enqueue inserts a waiter in order. The caller holds mu.
func (q *queue) enqueue(w *waiter) {
	q.seq++
	w.seq = q.seq
	at, _ := slices.BinarySearchFunc(q.waiting, w, (*waiter).compare)
	q.waiting = slices.Insert(q.waiting, at, w)
	if !q.running {
		q.running = true
		go q.run()
	} else if q.stale || q.hasJobFor(w) {
		q.wake()
	}
}

// hasJobFor reports whether there may be jobs that a waiter could take. The caller holds mu.
func (q *queue) hasJobFor(w *waiter) bool {
	for set, rules := range q.remaining {
		if w.profile.matches(set, rules) {
			return true
		}
	}
	return false
}

// wake makes the goroutine check for work.
func (q *queue) wake() {
	select {
	case q.poke <- struct{}{}:
	default: // already signaled
	}
}

// remove removes a waiter. It returns false when a job is being assigned to it; the waiter is then answered
// when that is done.
func (q *queue) remove(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.picked {
		w.leaving = true
		return false
	}
	at, found := slices.BinarySearchFunc(q.waiting, w, (*waiter).compare)
	if !found {
		return false // already answered
	}
	q.waiting = slices.Delete(q.waiting, at, at+1)
	if len(q.waiting) == 0 {
		q.wake()
	}
	return true
}

// run matches jobs with agents while agents wait.
func (q *queue) run() {
	for {
		pause := q.match()
		if pause == 0 && q.done() {
			return
		}
		var over <-chan time.Time
		if pause > 0 {
			over = time.After(pause)
		}
		select {
		case <-q.woken:
			q.markStale()
		case <-q.poke:
		case <-over:
		}
	}
}

// done stops the goroutine when no agent waits.
func (q *queue) done() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = len(q.waiting) > 0
	return !q.running
}

// match hands out jobs to waiters and returns how long to back off, if necessary.
func (q *queue) match() (pause time.Duration) {
	q.drainWakeups()
	for q.shouldScan() {
		if pause := q.backoffDelay(); pause > 0 {
			return pause
		}
		picks, err := q.scan()
		if err != nil {
			q.dispatcher.log.Warn("scan queue failed", "queue", q.id, "error", err)
			q.scanFailed()
			continue
		}
		q.dispatcher.claims.add(picks)
	}
	return 0
}

// drainWakeups consumes pending bus notifications without blocking.
func (q *queue) drainWakeups() {
	select {
	case <-q.woken:
		q.markStale()
	default:
	}
}

// markStale records that there may be more jobs than the last scan saw.
func (q *queue) markStale() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stale = true
}

// shouldScan reports whether a scan could match a waiting agent.
func (q *queue) shouldScan() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0 && (q.stale || slices.ContainsFunc(q.waiting, q.hasJobFor))
}

// scan finds the best jobs for the waiters and picks who gets which. A panic is treated like an error: the
// queue is scanned again after a backoff.
func (q *queue) scan() (picks []pick, err error) {
	defer core.CatchPanic(&err)
	q.mu.Lock()
	if len(q.waiting) == 0 {
		q.mu.Unlock()
		return nil, nil
	}
	orgID, share := q.waiting[0].OrganizationID, q.share
	q.stale, q.remaining = false, nil // later changes may not be seen
	q.mu.Unlock()
	q.dispatcher.metrics.scans.Inc()
	ctx, cancel := context.WithTimeout(context.Background(), scanTimeout)
	defer cancel()
	var seen snapshot
	err = q.dispatcher.db.Read(ctx, func(sql *db.Q) (err error) {
		seen, err = q.readSnapshot(sql, orgID, share)
		return err
	})
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pick(seen), nil
}
