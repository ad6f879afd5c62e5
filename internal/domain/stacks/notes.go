package stacks

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
)

// notes gathers what happens where nothing is written, and writes it in batches. It is best effort: what
// is not written when the process dies is lost, and so is what comes too fast.
type notes struct {
	db  *db.DB
	log *slog.Logger

	mu         sync.Mutex
	stacks     map[string]time.Time // when stacks last called
	queues     map[string]time.Time // when queues were last polled
	milestones []milestones
	waiting    int                  // of the jobs of all milestones
	noted      map[string]bool      // milestones that were noted lately
	connected  map[string]time.Time // when polls of queues were last written
	pending    chan struct{}        // holds a token while there is something to write
}

const (
	// stale is how old the last poll of a queue that was written may be for the next one to be gathered. A poll
	// of a queue that was not polled lately is written before it is answered, so that whoever starts a stack
	// sees the queue connected.
	stale = time.Minute
	// flushDelay is how long notes are gathered.
	flushDelay = 5 * time.Second
	// maxMilestones bounds those that wait to be written, and maxNoted those that are known to be.
	maxMilestones, maxNoted = 20_000, 100_000
)

func newNotes(d *db.DB, log *slog.Logger) *notes {
	return &notes{
		db: d, log: log,
		stacks:    map[string]time.Time{},
		queues:    map[string]time.Time{},
		noted:     map[string]bool{},
		connected: map[string]time.Time{},
		pending:   make(chan struct{}, 1),
	}
}

// milestones are something that happened to jobs at the same moment.
type milestones struct {
	what builds.MilestoneKind
	at   time.Time
	by   string // the stack's key
	jobs []string
}

// put puts a token into a channel that has room for one.
func put(tokens chan struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

// called notes that a stack has called.
func (n *notes) called(stackID string, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stacks[stackID] = at
	put(n.pending)
}

// polled notes that a queue was polled, and which jobs were shown. It reports whether the poll must be written
// at once, since the last that was written is stale.
func (n *notes) polled(queueID, stackKey string, jobs []scheduledJob, at time.Time) (isStale bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queues[queueID] = at
	listed := milestones{what: builds.Listed, at: at, by: stackKey}
	for _, j := range jobs {
		n.add(&listed, j.id)
	}
	n.keep(listed)
	return at.Sub(n.connected[queueID]) > stale
}

// writePoll writes at once that a queue was polled. It is best effort, like all notes: a poll that cannot be
// written stays among those that are gathered.
func (n *notes) writePoll(ctx context.Context, queueID string, at time.Time) {
	err := n.db.Write(ctx, func(q *db.Q) error { return notePolls(q, map[string]time.Time{queueID: at}) })
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("write queue poll failed", "queue", queueID, "error", err)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connected[queueID] = at
}

// issued notes that tokens were issued.
func (n *notes) issued(stackKey string, tokens []token, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	issued := milestones{what: builds.TokenIssued, at: at, by: stackKey}
	for _, t := range tokens {
		n.add(&issued, t.jobID)
	}
	n.keep(issued)
}

// add adds a job to milestones, unless it was noted before. The caller holds mu.
func (n *notes) add(m *milestones, jobID string) {
	key := string(m.what) + jobID
	if n.noted[key] || n.waiting >= maxMilestones {
		return
	}
	if len(n.noted) >= maxNoted {
		clear(n.noted) // writing one again does no harm
	}
	n.noted[key] = true
	m.jobs = append(m.jobs, jobID)
	n.waiting++
}

// keep has what was noted be written. The caller holds mu.
func (n *notes) keep(m milestones) {
	if len(m.jobs) > 0 {
		n.milestones = append(n.milestones, m)
	}
	put(n.pending)
}

// Run writes what was gathered, a while after the first of it, until ctx is done; then what is left.
func (s *Service) Run(ctx context.Context) error {
	n := s.notes
	for {
		select {
		case <-ctx.Done():
			return s.Flush(context.WithoutCancel(ctx))
		case <-n.pending:
		}
		select {
		case <-ctx.Done():
		case <-time.After(flushDelay):
		}
		if err := s.Flush(context.WithoutCancel(ctx)); err != nil {
			n.log.Warn("flush stack activity failed", "error", err)
		}
	}
}

// Flush writes what was gathered, each in a transaction of its own: nobody who has one part locked waits
// for another.
func (s *Service) Flush(ctx context.Context) error {
	n := s.notes
	n.mu.Lock()
	stacks, queues, gathered := n.stacks, n.queues, n.milestones
	n.stacks, n.queues, n.milestones, n.waiting = map[string]time.Time{}, map[string]time.Time{}, nil, 0
	maps.Copy(n.connected, queues)
	n.mu.Unlock()
	var failed []error
	write := func(fn func(q *db.Q) error) { failed = append(failed, n.db.Write(ctx, fn)) }
	if len(stacks) > 0 {
		write(func(q *db.Q) error { return noteCalls(q, stacks) })
	}
	if len(queues) > 0 {
		write(func(q *db.Q) error { return notePolls(q, queues) })
	}
	for _, m := range gathered {
		write(func(q *db.Q) error { return builds.NoteMilestone(q, m.what, m.at, m.by, m.jobs) })
	}
	return errors.Join(failed...)
}

// noteCalls keeps when stacks last called: the latest time of all, since they are at most flushDelay apart.
func noteCalls(q *db.Q, stacks map[string]time.Time) error {
	ids, latest := latestOf(stacks)
	in, arg := q.In("id", 1, ids)
	_, err := q.Exec(`UPDATE stacks SET connected_at = $2 WHERE `+q.InOrder("stacks", "id", "connected_at < $2 AND "+in), arg, db.Micros(latest))
	return err
}

// notePolls keeps when queues were last polled.
func notePolls(q *db.Q, queues map[string]time.Time) error {
	ids, latest := latestOf(queues)
	in, arg := q.In("id", 2, ids)
	_, err := q.Exec(`
		INSERT INTO queue_polls (queue_id, polled_at) SELECT id, CAST($1 AS BIGINT) FROM queues WHERE `+in+` ORDER BY id
		ON CONFLICT (queue_id) DO UPDATE SET polled_at = excluded.polled_at WHERE queue_polls.polled_at < excluded.polled_at`, db.Micros(latest), arg)
	return err
}

func latestOf(seen map[string]time.Time) (ids []string, latest time.Time) {
	for id, at := range seen {
		ids = append(ids, id)
		if at.After(latest) {
			latest = at
		}
	}
	return ids, latest
}
