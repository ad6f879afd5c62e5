package identity

import (
	"context"
	"errors"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/lru"
)

// epochLifetime is how long the epoch is trusted without checking whether another process changed it.
const epochLifetime = 500 * time.Millisecond

// maxCached bounds each cache of the directory.
const maxCached = 10_000

// Directory caches callers, agent tokens and organizations.
//
// The database has an epoch that every change increments. The caches are valid while the epoch stays the same.
// The directory reads it again when the last check is older than half a second, and only on a request, so an
// idle server runs no statements.
type Directory struct {
	// CheckEvery is how often Changes checks the epoch. Set it before the first call.
	CheckEvery time.Duration

	db    *db.DB
	clock core.Clock

	mu        sync.Mutex
	changes   uint64 // number of changes by this process
	epoch     int64
	checkedAt time.Time
	callers   *lru.Cache[string, *Caller]       // by token hash
	people    *lru.Cache[string, *Caller]       // by user id
	agents    *lru.Cache[string, *AgentToken]   // by token hash and by id
	orgs      *lru.Cache[string, *Organization] // by slug and by id, which no slug looks like
}

// NewDirectory returns a directory with empty caches.
func NewDirectory(d *db.DB, clock core.Clock) *Directory {
	return &Directory{
		CheckEvery: defaultCheckEvery,
		db:         d,
		clock:      clock,
		callers:    lru.New[string, *Caller](maxCached),
		people:     lru.New[string, *Caller](maxCached),
		agents:     lru.New[string, *AgentToken](maxCached),
		orgs:       lru.New[string, *Organization](maxCached),
	}
}

// Change runs fn in one write transaction that changes what directories cache: organizations, users,
// memberships, teams or tokens. Afterwards this process has nothing older in its caches.
func (d *Directory) Change(ctx context.Context, fn func(q *db.Q) error) error {
	err := d.db.Write(ctx, func(q *db.Q) error {
		if err := fn(q); err != nil {
			return err
		}
		return NoteChange(q)
	})
	// Also after an error: the commit may have succeeded although its answer was lost.
	d.mu.Lock()
	d.changes++
	d.clear()
	d.mu.Unlock()
	return err
}

// Topic is the bus topic of changes.
const Topic = "identity"

// NoteChange notifies the directories of all processes, when the transaction commits, that their caches may be
// stale, and streams that their callers may have lost access, also for reasons that directories do not cache,
// for example the end of a session.
func NoteChange(q *db.Q) error {
	q.Announce(Topic)
	_, err := q.Exec(`UPDATE identity_epoch SET epoch = epoch + 1 WHERE id = 1`)
	return err
}

func (d *Directory) clear() {
	d.callers.Clear()
	d.people.Clear()
	d.agents.Clear()
	d.orgs.Clear()
	d.checkedAt = time.Time{}
}

// cached returns the value of a key from a cache, or loads it. It adds the loaded value only if nothing changed
// meanwhile, so that a slow load cannot restore what a change removed.
func cached[T any](ctx context.Context, d *Directory, cache *lru.Cache[string, *T], key string, load func(q *db.Q) (*T, error)) (*T, error) {
	if err := d.checkEpoch(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	known, ok := cache.Get(key)
	changes, epoch := d.changes, d.epoch
	d.mu.Unlock()
	if ok {
		return known, nil
	}
	var loaded *T
	err := d.db.Read(ctx, func(q *db.Q) (err error) {
		loaded, err = load(q)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes == changes && d.epoch == epoch {
		cache.Add(key, loaded)
	}
	return loaded, nil
}

// checkEpoch reads the epoch when the last check is too old, and clears the caches when it has changed.
func (d *Directory) checkEpoch(ctx context.Context) error {
	now := d.clock()
	d.mu.Lock()
	recent := !d.checkedAt.IsZero() && now.Sub(d.checkedAt) < epochLifetime
	d.mu.Unlock()
	if recent {
		return nil
	}
	var epoch int64
	err := d.db.Read(ctx, func(q *db.Q) (err error) {
		epoch, err = Epoch(q)
		return err
	})
	if err == nil {
		d.ObserveEpoch(epoch, now)
	}
	return err
}

// Epoch reads the number of changes.
func Epoch(q *db.Q) (epoch int64, err error) {
	err = q.QueryRow(`SELECT epoch FROM identity_epoch WHERE id = 1`).Scan(&epoch)
	return epoch, err
}

// ObserveEpoch passes an epoch to the directory that another query read; at is when that query started. It
// clears the caches when the epoch has changed.
func (d *Directory) ObserveEpoch(epoch int64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch > d.epoch {
		d.clear()
		d.epoch = epoch
	}
	if at.After(d.checkedAt) {
		d.checkedAt = at
	}
}

// Organization returns the organization with a slug, or a NotFound error.
func (d *Directory) Organization(ctx context.Context, slug string) (*Organization, error) {
	return cached(ctx, d, d.orgs, slug, func(q *db.Q) (*Organization, error) {
		return OrganizationBySlug(q, slug)
	})
}

// Person returns a user as the caller of pages, with a session instead of a token: in all of the user's
// organizations, with every scope. An unknown user is a NotFound error.
func (d *Directory) Person(ctx context.Context, userID string) (*Caller, error) {
	c, err := cached(ctx, d, d.people, userID, func(q *db.Q) (*Caller, error) {
		return loadPerson(q, userID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, "No user found")
	}
	return c, err
}
