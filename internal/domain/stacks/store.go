package stacks

import (
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const noStack = "No stack found"

const selectStack = `
	SELECT id, organization_id, cluster_id, key, type, queue_key, metadata, registered_at, connected_at
	FROM stacks`

func scanStack(scan db.Scan) (*Stack, error) {
	s := &Stack{}
	err := scan(&s.ID, &s.OrganizationID, &s.ClusterID, &s.Key, &s.Type, &s.QueueKey, db.ToJSON(&s.Metadata), db.ToTime(&s.RegisteredAt), db.ToTime(&s.ConnectedAt))
	return s, err
}

// byKey returns the stack of an organization with a key, or a NotFound error.
func byKey(q *db.Q, orgID, key string) (*Stack, error) {
	return db.Find(q, noStack, scanStack, selectStack+` WHERE organization_id = $1 AND key = $2`, orgID, key)
}

// byID returns a stack of a cluster, or a NotFound error.
func byID(q *db.Q, clusterID, id string) (*Stack, error) {
	return db.Find(q, noStack, scanStack, selectStack+` WHERE cluster_id = $1 AND id = $2`, clusterID, id)
}

// keyOf returns the key of a stack, "" when the stack does not exist.
func keyOf(q *db.Q, id string) (key string, err error) {
	err = q.QueryRow(`SELECT key FROM stacks WHERE id = $1`, id).Scan(&key)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return key, err
}

// list returns a page of the stacks of a cluster, ordered by key, and their total number.
func list(q *db.Q, clusterID string, limit, offset int) (stacks []*Stack, total int, err error) {
	stacks, err = db.All(q, scanStack, selectStack+` WHERE cluster_id = $1 ORDER BY key LIMIT $2 OFFSET $3`, clusterID, limit, offset)
	if err != nil {
		return nil, 0, err
	}
	return stacks, total, q.QueryRow(`SELECT COUNT(*) FROM stacks WHERE cluster_id = $1`, clusterID).Scan(&total)
}

// silentSince returns up to limit stacks that have not called since a time, and locks them.
func silentSince(q *db.Q, since time.Time, limit int) ([]*Stack, error) {
	return db.All(q, scanStack, selectStack+` WHERE connected_at < $1 ORDER BY connected_at, id LIMIT $2`+q.ForUpdate(), db.Micros(since), limit)
}

// countActive returns the number of connected stacks of an organization.
func countActive(q *db.Q, orgID string, now time.Time) (n int, err error) {
	since := db.Micros(now.Add(-disconnectedAfter))
	return n, q.QueryRow(`SELECT COUNT(*) FROM stacks WHERE organization_id = $1 AND connected_at >= $2`, orgID, since).Scan(&n)
}

// save inserts or updates a stack that registers.
func save(q *db.Q, s *Stack) error {
	_, err := stackRows.Exec(q, s.ID, `
		INSERT INTO stacks (id, organization_id, cluster_id, key, type, queue_key, metadata, registered_at, connected_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
		ON CONFLICT (organization_id, key) DO UPDATE SET cluster_id = excluded.cluster_id, type = excluded.type, queue_key = excluded.queue_key,
			metadata = excluded.metadata, registered_at = excluded.registered_at, connected_at = excluded.connected_at`,
		s.ID, s.OrganizationID, s.ClusterID, s.Key, s.Type, s.QueueKey, db.JSON(s.Metadata), db.Micros(s.RegisteredAt))
	return err
}

// lockRegistered keeps a stack registered until the end of the write, or returns a NotFound error when it is
// not registered any more.
func lockRegistered(q *db.Q, s *Stack) error {
	var id string
	err := q.QueryRow(`SELECT id FROM stacks WHERE id = $1`+q.ForShare(), s.ID).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return core.Errorf(core.NotFound, noStack)
	}
	return err
}

// updateConnected stores when stacks last called, unless a later call is stored.
func updateConnected(q *db.Q, stackIDs []string, at time.Time) error {
	in, arg := q.In("id", 1, stackIDs)
	_, err := q.Exec(`UPDATE stacks SET connected_at = $2 WHERE `+q.InOrder("stacks", "id", "connected_at < $2 AND "+in), arg, db.Micros(at))
	return err
}
