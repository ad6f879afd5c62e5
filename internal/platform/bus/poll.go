package bus

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"stackyard/internal/platform/db"
)

const (
	// pollEvery is how often a replica asks for what it may not have been told.
	pollEvery = 5 * time.Second
	// pollTimeout bounds one such look.
	pollTimeout = 10 * time.Second
)

// A question asks the database whether there is something that nobody has told of.
type question struct{ ask func(q *db.Q) error }

// OnPoll has ask called every few seconds, as long as [Bus.Run] runs and until cancel is called, where
// other replicas share the database: one that dies between a commit and telling of it tells nobody. All
// who ask do so in one read, so that each replica has one such poll, whatever there is to ask for. ask
// runs one statement at most, however much there is; the rules of [db.DB.Read] hold.
func (b *Bus) OnPoll(ask func(q *db.Q) error) (cancel func()) {
	asked := &question{ask}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.questions[asked] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.questions, asked)
	}
}

// poll asks from time to time, and not at the same moment as other replicas, until ctx is done.
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

// Poll asks all questions once, also when one of them fails.
func (b *Bus) Poll(ctx context.Context) error {
	b.mu.Lock()
	all := make([]*question, 0, len(b.questions))
	for asked := range b.questions {
		all = append(all, asked)
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return b.db.Read(ctx, func(q *db.Q) (err error) {
		for _, asked := range all {
			err = errors.Join(err, asked.ask(q))
		}
		return err
	})
}
