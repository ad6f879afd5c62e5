package stacks

import (
	"errors"

	"stackyard/internal/core"
	"stackyard/internal/db"
)

const noStack = "No stack found"

const selectStack = `
	SELECT id, organization_id, cluster_id, key, type, queue_key, metadata, connected_at, deregistered_at
	FROM stacks`

func scanStack(scan db.Scan) (*Stack, error) {
	s := &Stack{}
	err := scan(&s.ID, &s.OrganizationID, &s.ClusterID, &s.Key, &s.Type, &s.QueueKey, db.ToJSON(&s.Metadata), db.ToTime(&s.ConnectedAt), db.ToTime(&s.DeregisteredAt))
	return s, err
}

// byKey returns the stack of an organization with a key, registered or not, or a NotFound error.
func byKey(q *db.Q, orgID, key string) (*Stack, error) {
	s, err := db.One(q, scanStack, selectStack+` WHERE organization_id = $1 AND key = $2`, orgID, key)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, noStack)
	}
	return s, err
}

// countActive returns how many stacks of an organization count.
func countActive(q *db.Q, orgID string) (n int, err error) {
	return n, q.QueryRow(`SELECT COUNT(*) FROM stacks WHERE organization_id = $1 AND deregistered_at IS NULL`, orgID).Scan(&n)
}

// save writes a stack that is registered, anew or again.
func save(q *db.Q, s *Stack) error {
	_, err := q.Exec(`
		INSERT INTO stacks (id, organization_id, cluster_id, key, type, queue_key, metadata, registered_at, connected_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
		ON CONFLICT (organization_id, key) DO UPDATE SET cluster_id = excluded.cluster_id, type = excluded.type, queue_key = excluded.queue_key,
			metadata = excluded.metadata, registered_at = excluded.registered_at, connected_at = excluded.connected_at, deregistered_at = NULL`,
		s.ID, s.OrganizationID, s.ClusterID, s.Key, s.Type, s.QueueKey, db.JSON(s.Metadata), db.Micros(s.ConnectedAt))
	return err
}

// stay keeps a stack from being de-registered until the end of the write, or returns a NotFound error where
// that has happened.
func stay(q *db.Q, s *Stack) error {
	var id string
	err := q.QueryRow(`SELECT id FROM stacks WHERE id = $1 AND deregistered_at IS NULL`+q.ForShare(), s.ID).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return core.Errorf(core.NotFound, noStack)
	}
	return err
}
