package events

import (
	"errors"
	"sync"

	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/lru"
)

// wantedTopic is what the bus calls a change of the wanted events of some organization.
const wantedTopic = "event-wants"

// maxCachedOrganizations bounds the memory of a wantedCache.
const maxCachedOrganizations = 10_000

// wantedCache keeps the events that each organization's consumers want, as they were when last read. All of it is
// forgotten when one organization's wants change, which happens rarely.
type wantedCache struct {
	changed <-chan struct{} // holds a token when it may be stale
	byOrg   *lru.Cache[string, Names]

	mu      sync.Mutex
	cleared int   // counts how often it was cleared
	version int64 // that the last poll found
}

func newWantedCache(b *bus.Bus) *wantedCache {
	changed, _ := b.Subscribe(wantedTopic)
	return &wantedCache{changed: changed, byOrg: lru.New[string, Names](maxCachedOrganizations)}
}

// generation clears the cache if it may be stale, and returns how often it was cleared.
func (c *wantedCache) generation() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.changed:
		c.clear()
	default:
	}
	return c.cleared
}

// clear forgets everything. The caller holds mu.
func (c *wantedCache) clear() {
	c.byOrg.Clear()
	c.cleared++
}

// add keeps what was read in a generation, unless it may have become stale since.
func (c *wantedCache) add(orgID string, names Names, generation int) {
	if c.generation() == generation {
		c.byOrg.Add(orgID, names)
	}
}

// polled clears the cache when the version that the poll found is not the one before: a notification may have been
// lost.
func (c *wantedCache) polled(version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		c.clear()
	}
	c.version = version
}

// Wanted returns the events of an organization that are worth writing, from memory where it can.
func (s *Service) Wanted(q *db.Q, orgID string) (Names, error) {
	generation := s.wanted.generation()
	if names, ok := s.wanted.byOrg.Get(orgID); ok {
		return names, nil
	}
	var all Names
	err := db.Each(q, func(scan db.Scan) error {
		var names Names
		err := scan(db.ToJSON(&names))
		all |= names
		return err
	}, `SELECT names FROM event_wants WHERE organization_id = $1`, orgID)
	if err == nil {
		s.wanted.add(orgID, all, generation)
	}
	return all, err
}

// AddWanted adds to the events of an organization that a consumer wants.
func AddWanted(q *db.Q, consumer, orgID string, names Names) error {
	if names == 0 {
		return nil
	}
	before, err := WantedBy(q, consumer, orgID)
	if err != nil || before|names == before {
		return err
	}
	return SetWanted(q, consumer, orgID, before|names)
}

// WantedBy returns the events of an organization that a consumer wants.
func WantedBy(q *db.Q, consumer, orgID string) (names Names, err error) {
	err = q.QueryRow(`SELECT names FROM event_wants WHERE organization_id = $1 AND consumer = $2`, orgID, consumer).Scan(db.ToJSON(&names))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return names, err
}

// SetWanted says which events of an organization a consumer wants from now on. Processes learn of it after the
// commit, other replicas a moment later.
func SetWanted(q *db.Q, consumer, orgID string, names Names) error {
	before, err := WantedBy(q, consumer, orgID)
	if err != nil || before == names {
		return err
	}
	_, err = q.Exec(`
		INSERT INTO event_wants (organization_id, consumer, names) VALUES ($1, $2, $3)
		ON CONFLICT (organization_id, consumer) DO UPDATE SET names = excluded.names`, orgID, consumer, db.JSON(names))
	if err != nil {
		return err
	}
	q.Announce(wantedTopic)
	_, err = q.Exec(`UPDATE event_wants_version SET version = version + 1 WHERE id = 1`)
	return err
}
