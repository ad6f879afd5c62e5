package account

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// flushEvery is how long uses are collected before they are written.
	flushEvery = time.Minute
	// flushBatch is how many uses one transaction writes.
	flushBatch = 500
)

// Uses collects the last use of access tokens, so that a request does not write. A process that dies loses the
// uses since the last flush: the time is approximate, and documented as such.
type Uses struct {
	db    *db.DB
	clock core.Clock
	log   *slog.Logger

	mu     sync.Mutex
	latest map[string]use // by token id; bounded by the number of valid tokens
}

type use struct {
	at      time.Time
	address string
}

// NewUses returns an empty collection.
func NewUses(d *db.DB, clock core.Clock, log *slog.Logger) *Uses {
	return &Uses{db: d, clock: clock, log: log, latest: make(map[string]use)}
}

// Record records that a token was used from an address.
func (u *Uses) Record(tokenID string, from netip.Addr) {
	now := u.clock()
	u.mu.Lock()
	u.latest[tokenID] = use{now, from.String()}
	u.mu.Unlock()
}

// Run flushes every minute until ctx is done, and then once more.
func (u *Uses) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			u.flushOrWarn(ctx)
		case <-ctx.Done():
			u.flushOrWarn(context.WithoutCancel(ctx))
			return nil
		}
	}
}

func (u *Uses) flushOrWarn(ctx context.Context) {
	if err := u.Flush(ctx); err != nil {
		u.log.Warn("flush access token usage failed", "error", err)
	}
}

// Flush writes the collected uses.
func (u *Uses) Flush(ctx context.Context) error {
	u.mu.Lock()
	collected := u.latest
	u.latest = make(map[string]use)
	u.mu.Unlock()
	// Sorted by id, so that replicas that write the same tokens do not deadlock.
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(collected)), flushBatch) {
		err := u.db.Write(ctx, func(q *db.Q) error {
			for _, id := range ids {
				if err := writeUse(q, id, collected[id]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeUse writes a use unless another replica has written a later one.
func writeUse(q *db.Q, tokenID string, u use) error {
	_, err := q.Exec(`
		UPDATE access_tokens SET last_used_at = $2, last_used_address = $3
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)`, tokenID, db.Micros(u.at), u.address)
	return err
}
