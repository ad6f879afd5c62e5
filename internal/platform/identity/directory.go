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

// trusted is how long what is remembered is used without asking whether another process changed it.
const trusted = 500 * time.Millisecond

// maxRemembered bounds each kind of thing the directory remembers.
const maxRemembered = 10_000

// Directory answers who is calling and what an organization is, from memory where it can.
//
// The database holds an epoch that every change counts up. What was loaded under one epoch is
// believed while the epoch stays the same; it is looked at again when the last look is older than
// half a second, and only when somebody asks, so an idle server asks nothing.
type Directory struct {
	// CheckEvery is how often Changes looks at the epoch. It is set before the first call.
	CheckEvery time.Duration

	db    *db.DB
	clock core.Clock

	mu      sync.Mutex
	changes uint64 // counts what this process changed
	epoch   int64
	looked  time.Time
	callers *lru.Cache[string, *Caller]       // by token hash
	people  *lru.Cache[string, *Caller]       // by user id
	agents  *lru.Cache[string, *AgentToken]   // by token hash and by id
	orgs    *lru.Cache[string, *Organization] // by slug and by id, which no slug looks like
}

// NewDirectory returns a directory of what the database holds.
func NewDirectory(d *db.DB, clock core.Clock) *Directory {
	return &Directory{
		CheckEvery: defaultCheckEvery,
		db:         d,
		clock:      clock,
		callers:    lru.New[string, *Caller](maxRemembered),
		people:     lru.New[string, *Caller](maxRemembered),
		agents:     lru.New[string, *AgentToken](maxRemembered),
		orgs:       lru.New[string, *Organization](maxRemembered),
	}
}

// Change runs fn in one write transaction that changes what directories remember: organizations,
// users, memberships, teams or tokens. When it returns, this process remembers nothing older.
func (d *Directory) Change(ctx context.Context, fn func(q *db.Q) error) error {
	err := d.db.Write(ctx, func(q *db.Q) error {
		if err := fn(q); err != nil {
			return err
		}
		return NoteChange(q)
	})
	// Also after an error: the commit may have happened although its answer was lost.
	d.mu.Lock()
	d.changes++
	d.forget()
	d.mu.Unlock()
	return err
}

// Topic is what the bus calls a change of what directories remember.
const Topic = "identity"

// NoteChange tells the directories of all processes, when the transaction commits, that what they
// remember may have changed, and long answers that their callers may have lost access: also by what directories do
// not remember, such as the end of a session.
func NoteChange(q *db.Q) error {
	q.Announce(Topic)
	_, err := q.Exec(`UPDATE identity_epoch SET epoch = epoch + 1 WHERE id = 1`)
	return err
}

func (d *Directory) forget() {
	d.callers.Clear()
	d.people.Clear()
	d.agents.Clear()
	d.orgs.Clear()
	d.looked = time.Time{}
}

// remember returns what one of the maps holds for a key, or loads it. What was loaded is kept only if
// nothing changed meanwhile, so that a slow load cannot bring back what a change took away.
func remember[T any](ctx context.Context, d *Directory, cache *lru.Cache[string, *T], key string, load func(q *db.Q) (*T, error)) (*T, error) {
	if err := d.look(ctx); err != nil {
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

// look asks for the epoch when the last answer is too old, and forgets everything when it moved.
func (d *Directory) look(ctx context.Context) error {
	now := d.clock()
	d.mu.Lock()
	recent := !d.looked.IsZero() && now.Sub(d.looked) < trusted
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
		d.Heed(epoch, now)
	}
	return err
}

// Epoch reads how often what directories remember has been changed.
func Epoch(q *db.Q) (epoch int64, err error) {
	err = q.QueryRow(`SELECT epoch FROM identity_epoch WHERE id = 1`).Scan(&epoch)
	return epoch, err
}

// Heed tells the directory of an epoch that somebody, who asked the database anyhow, began to read at a
// time. It forgets everything when the epoch has moved.
func (d *Directory) Heed(epoch int64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch > d.epoch {
		d.forget()
		d.epoch = epoch
	}
	if at.After(d.looked) {
		d.looked = at
	}
}

// Organization returns the organization with a slug, or a NotFound error.
func (d *Directory) Organization(ctx context.Context, slug string) (*Organization, error) {
	return remember(ctx, d, d.orgs, slug, func(q *db.Q) (*Organization, error) {
		return OrganizationBySlug(q, slug)
	})
}

// Person returns a user as the caller of pages, where people are known by a session instead of a token:
// in every organization they belong to, with every scope. A user that does not exist is NotFound.
func (d *Directory) Person(ctx context.Context, userID string) (*Caller, error) {
	c, err := remember(ctx, d, d.people, userID, func(q *db.Q) (*Caller, error) {
		return loadPerson(q, userID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, "No user found")
	}
	return c, err
}
