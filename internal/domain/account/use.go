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
	// flushEvery is how long uses are gathered before they are written.
	flushEvery = time.Minute
	// flushAtOnce is how many uses one transaction writes.
	flushAtOnce = 500
)

// Uses gathers when access tokens are used, so that a request costs no write. What was gathered since the
// last flush is lost with the process: the time is approximate, and says so.
type Uses struct {
	db    *db.DB
	clock core.Clock
	log   *slog.Logger

	mu     sync.Mutex
	latest map[string]use // by the token's id; no more than there are tokens that work
}

type use struct {
	at      time.Time
	address string
}

// NewUses returns a place to gather uses.
func NewUses(d *db.DB, clock core.Clock, log *slog.Logger) *Uses {
	return &Uses{db: d, clock: clock, log: log, latest: make(map[string]use)}
}

// Note notes that a token was used from an address.
func (u *Uses) Note(tokenID string, from netip.Addr) {
	now := u.clock()
	u.mu.Lock()
	u.latest[tokenID] = use{now, from.String()}
	u.mu.Unlock()
}

// Run writes what is gathered every minute until ctx is done, and then what is left.
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

// Flush writes what is gathered.
func (u *Uses) Flush(ctx context.Context) error {
	u.mu.Lock()
	gathered := u.latest
	u.latest = make(map[string]use)
	u.mu.Unlock()
	// In the order of their ids, so that replicas that write the same tokens do not wait in a circle.
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(gathered)), flushAtOnce) {
		err := u.db.Write(ctx, func(q *db.Q) error {
			for _, id := range ids {
				if err := writeUse(q, id, gathered[id]); err != nil {
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

// writeUse notes a use unless another replica has noted a later one.
func writeUse(q *db.Q, tokenID string, u use) error {
	_, err := q.Exec(`
		UPDATE access_tokens SET last_used_at = $2, last_used_address = $3
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)`, tokenID, db.Micros(u.at), u.address)
	return err
}
