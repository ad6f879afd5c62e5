package bus

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"stackyard/internal/platform/db"
)

const (
	// pollEvery is how often a replica polls for missed notifications.
	pollEvery = 5 * time.Second
	// pollTimeout bounds one poll.
	pollTimeout = 10 * time.Second
)

// A poller checks the database for changes whose notification may have been lost.
type poller struct{ check func(q *db.Q) error }

// OnPoll registers check to run every few seconds, while [Bus.Run] runs and until cancel is called, if other
// replicas share the database: a replica that dies between a commit and its notification notifies no other. All
// checks run in one read, so that each replica polls once, however many checks there are. check runs one
// statement at most; the rules of [db.DB.Read] apply.
func (b *Bus) OnPoll(check func(q *db.Q) error) (cancel func()) {
	p := &poller{check}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pollers[p] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.pollers, p)
	}
}

// poll polls until ctx ends, at other moments than other replicas.
func (b *Bus) poll(ctx context.Context) {
	for {
		wait(ctx, pollEvery-rand.N(pollEvery/5))
		if ctx.Err() != nil {
			return
		}
		if err := b.Poll(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("bus poll failed", "error", err)
		}
	}
}

// Poll runs all checks once, also when one of them fails.
func (b *Bus) Poll(ctx context.Context) error {
	b.mu.Lock()
	all := make([]*poller, 0, len(b.pollers))
	for p := range b.pollers {
		all = append(all, p)
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return b.db.Read(ctx, func(q *db.Q) (err error) {
		for _, p := range all {
			err = errors.Join(err, p.check(q))
		}
		return err
	})
}
