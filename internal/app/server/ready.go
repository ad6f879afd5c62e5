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
	// readyTimeout is how long the database may take to show that it can be written.
	readyTimeout = 2 * time.Second
	// probeEvery is the least time between two writes that test the database. Anyone may ask for /readyz.
	probeEvery = time.Second
	// minDiskSpace is how many bytes must be available on the disk of the database. SQLite reuses space in
	// its files, so that small writes succeed for a while on a disk that is full for all others.
	minDiskSpace = 1 << 20
)

// ready answers 200 only when the server can serve and save.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		say(w, http.StatusServiceUnavailable, "The server is draining")
		return
	}
	if reason := s.writable.check(r.Context()); reason != "" {
		say(w, http.StatusServiceUnavailable, reason)
		return
	}
	say(w, http.StatusOK, "Ready")
}

// writable knows whether the database can be written.
type writable struct {
	db    *db.DB
	disks []disk
	clock core.Clock
	log   *slog.Logger

	mu     sync.Mutex
	probed time.Time
	reason string // why it could not be written when it was last probed; "" when it could
}

// check returns why the database cannot be written, or "". Those who ask at the same time share an answer.
func (c *writable) check(ctx context.Context) (reason string) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.db.Ping(ctx); err != nil {
		return reasonOf(err, "The database is away")
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

// probe writes a row, and looks at the space on the disk.
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

// reasonOf returns why the database takes no writes, or a sentence for all other errors.
func reasonOf(err error, otherwise string) string {
	if e, ok := errors.AsType[*core.Error](err); ok && errors.Is(err, db.ErrNotWritable) {
		return e.Message
	}
	return otherwise
}
