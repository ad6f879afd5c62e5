package events

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// batchSize bounds the events that a consumer gets at once.
	batchSize = 200
	// windowSize bounds the events that one statement looks at for a consumer that gets only some of them.
	windowSize = 10_000
	// batchGap is the least time between two looks for events, so that those written meanwhile are processed
	// together.
	batchGap = 10 * time.Millisecond
	// yieldGap is the least gap of a replica that another one was faster than, so that one replica does most of the
	// work.
	yieldGap = 300 * time.Millisecond
	// maxPause bounds the time between two attempts of a consumer that fails.
	maxPause = 15 * time.Second
)

// A Consumer processes events in order, each once.
type Consumer struct {
	// Name identifies its cursor.
	Name string
	// Names are the events that it gets; others are skipped where they are stored. Zero: all.
	Names Names
	// Gap is the least time between two looks for events, for consumers that are in no hurry: events that are written
	// meanwhile cost one look together. 0: some milliseconds.
	Gap time.Duration
	// Process reads what it needs to know about a batch and returns a function that writes what follows from it.
	// The cursor moves in the transaction of that function. Both can run more than once for the same batch.
	Process func(ctx context.Context, batch []Event) (commit func(q *db.Q) error, err error)
}

// between returns the first events after a number, up to another, that the consumer gets.
func (c *Consumer) between(q *db.Q, after, last int64) ([]Event, error) {
	var s db.Statement
	s.Where("seq > %s", after)
	s.Where("seq <= %s", last)
	if c.Names != 0 {
		var names []string
		for _, name := range c.Names.List() {
			names = append(names, string(name))
		}
		s.WhereIn(q, "name", names)
	}
	return db.All(q, scanEvent, selectEvent+s.Clause()+` ORDER BY seq LIMIT `+s.Arg(batchSize), s.Args()...)
}

// Consume registers a consumer. Call it before Run.
func (s *Service) Consume(c Consumer) { s.consumers = append(s.consumers, &c) }

// Run hands events to consumers until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for _, c := range s.consumers {
		loops.Go(func() { s.loop(ctx, c) })
	}
	loops.Wait()
	return nil
}

// loop hands events to one consumer whenever there are new ones.
func (s *Service) loop(ctx context.Context, c *Consumer) {
	woken, cancel := s.bus.Subscribe(topic)
	defer cancel()
	gap := max(c.Gap, batchGap)
	failing := gap
	for ctx.Err() == nil {
		next, pause := woken, gap
		overtaken, err := s.catchUp(ctx, c)
		switch {
		case err != nil && ctx.Err() == nil:
			s.log.WarnContext(ctx, "consume events failed", "consumer", c.Name, "error", err)
			failing = min(2*failing, maxPause)
			next, pause = nil, failing // try again after the pause
		case overtaken:
			pause = max(gap, yieldGap)
		default:
			failing = gap
		}
		sleep(ctx, pause)
		if next != nil {
			select {
			case <-ctx.Done():
			case <-next:
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// CatchUp hands all events that there are to all consumers.
func (s *Service) CatchUp(ctx context.Context) error {
	var errs []error
	for _, c := range s.consumers {
		_, err := s.catchUp(ctx, c)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// catchUp hands batches to a consumer until it has processed every event that was visible when the last batch was
// read. overtaken reports that another replica processed one of them first.
func (s *Service) catchUp(ctx context.Context, c *Consumer) (overtaken bool, err error) {
	for {
		cursor, newest, err := s.positions(ctx, c)
		if err != nil || newest <= cursor {
			return overtaken, err
		}
		if err := s.settle(ctx); err != nil {
			return overtaken, err
		}
		for cursor < newest {
			cursor, err = s.processBatch(ctx, c, cursor, newest)
			if errors.Is(err, errMoved) {
				overtaken = true
				break // look again
			}
			if err != nil {
				return overtaken, err
			}
		}
	}
}

// positions returns the number of the last event that a consumer has processed, and that of the newest event.
func (s *Service) positions(ctx context.Context, c *Consumer) (cursor, newest int64, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT seq, (SELECT COALESCE(MAX(seq), 0) FROM events) FROM event_cursors WHERE id = $1`, c.Name).Scan(&cursor, &newest)
	})
	if errors.Is(err, db.ErrNoRows) {
		err = fmt.Errorf("the consumer %q has no cursor; a migration must add it", c.Name)
	}
	return cursor, newest, err
}

// errMoved says that another replica has processed the batch.
var errMoved = errors.New("the cursor has moved")

// processBatch has a consumer process the events after its cursor, up to the newest that has settled, and returns
// where the cursor is then, or errMoved.
func (s *Service) processBatch(ctx context.Context, c *Consumer, cursor, newest int64) (next int64, err error) {
	defer core.CatchPanic(&err)
	next = min(newest, cursor+windowSize)
	var batch []Event
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		batch, err = c.between(q, cursor, next)
		return err
	})
	if err != nil {
		return cursor, err
	}
	commit := func(*db.Q) error { return nil }
	if len(batch) > 0 {
		if commit, err = c.Process(ctx, batch); err != nil {
			return cursor, err
		}
	}
	if len(batch) == batchSize {
		next = batch[len(batch)-1].Seq
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := moveCursor(q, c.Name, cursor, next); err != nil {
			return err
		}
		return commit(q)
	})
	return next, err
}

func moveCursor(q *db.Q, consumer string, from, to int64) error {
	moved, err := q.Exec(`UPDATE event_cursors SET seq = $3 WHERE id = $1 AND seq = $2`, consumer, from, to)
	if err == nil && moved == 0 {
		err = errMoved
	}
	return err
}

// poll wakes consumers when there are events that they were not notified of, and forgets wants that have changed:
// another replica may have died before it notified.
func (s *Service) poll(q *db.Q) error {
	var version, newest, cursor int64
	err := q.QueryRow(`
		SELECT version, (SELECT COALESCE(MAX(seq), 0) FROM events), (SELECT COALESCE(MIN(seq), 0) FROM event_cursors)
		FROM event_wants_version WHERE id = 1`).Scan(&version, &newest, &cursor)
	if err != nil {
		return err
	}
	s.wanted.polled(version)
	if cursor < newest {
		s.bus.Wake(topic)
	}
	return nil
}
