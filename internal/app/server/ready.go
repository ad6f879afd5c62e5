package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// readyTimeout limits the test write to the database.
	readyTimeout = 2 * time.Second
	// probeEvery is the minimum time between two test writes. Anyone can request /readyz.
	probeEvery = time.Second
	// minDiskSpace is the minimum space on the database's disk, in bytes. SQLite reuses space in its files, so
	// small writes succeed for a while on a full disk.
	minDiskSpace = 1 << 20
)

// ready responds with 200 only if the server can serve requests and write.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		respond(w, http.StatusServiceUnavailable, "The server is draining")
		return
	}
	if reason := s.writable.check(r.Context()); reason != "" {
		respond(w, http.StatusServiceUnavailable, reason)
		return
	}
	respond(w, http.StatusOK, "Ready")
}

// writable checks whether the database accepts writes.
type writable struct {
	db    *db.DB
	disks []disk
	clock core.Clock
	log   *slog.Logger

	mu     sync.Mutex
	probed time.Time
	reason string // why it could not be written when it was last probed; "" when it could
}

// check returns why the database does not accept writes, or "". Concurrent calls share a result.
func (c *writable) check(ctx context.Context) (reason string) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.db.Ping(ctx); err != nil {
		return reasonOf(err, "The database is unavailable")
	}
	now := c.clock()
	if since := now.Sub(c.probed); since >= 0 && since < probeEvery {
		return c.reason
	}
	reason, err := c.probe(ctx, now)
	if reason != "" && reason != c.reason {
		c.log.Error("database cannot be written", "reason", reason, "error", err)
	}
	c.probed, c.reason = now, reason
	return reason
}

// probe writes a row and checks the space on the disk.
func (c *writable) probe(ctx context.Context, now time.Time) (reason string, err error) {
	err = c.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`
			INSERT INTO installation (name, value) VALUES ('write_probe', $1)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, now.Format(time.RFC3339))
		return err
	})
	if err != nil {
		return reasonOf(err, "The database cannot be written"), err
	}
	for _, d := range c.disks {
		if space, err := d.space(); err == nil && d.name == databaseDisk && space.available < minDiskSpace {
			return db.DiskFull, nil
		}
	}
	return "", nil
}

// reasonOf returns why the database does not accept writes, or fallback for other errors.
func reasonOf(err error, fallback string) string {
	if e, ok := errors.AsType[*core.Error](err); ok && errors.Is(err, db.ErrNotWritable) {
		return e.Message
	}
	return fallback
}
