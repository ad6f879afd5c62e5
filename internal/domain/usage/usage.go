// Package usage counts what organizations store. The counters change in the transactions that change what they count, so
// that reading them costs the same at any size.
package usage

import (
	"errors"

	"stackyard/internal/platform/db"
)

// Kind is what is counted.
type Kind string

// What is counted.
const (
	// Artifacts are the finished artifacts whose bytes the server stores.
	Artifacts Kind = "artifacts"
	// Caches are the pieces of caches.
	Caches Kind = "caches"
	// Logs are the logs in the blob store. Small ones, which are in the database, do not count: they have at most 32 KiB
	// each, and counting them would have all jobs of an organization that end at the same time wait for each other.
	Logs Kind = "logs"
)

// A Stored is a number of objects and their bytes.
type Stored struct{ Bytes, Objects int64 }

// Add adds to a counter of an organization; negative numbers are what was removed. Transactions that add to the same
// counter wait for each other, so it comes last.
func Add(q *db.Q, organizationID string, k Kind, s Stored) error {
	if s == (Stored{}) {
		return nil
	}
	_, err := q.Exec(`
		INSERT INTO stored_bytes (organization_id, kind, bytes, objects)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT (organization_id, kind) DO UPDATE SET
			bytes   = stored_bytes.bytes + excluded.bytes,
			objects = stored_bytes.objects + excluded.objects`, organizationID, k, s.Bytes, s.Objects)
	return err
}

// Of returns a counter of an organization.
func Of(q *db.Q, organizationID string, k Kind) (s Stored, err error) {
	err = q.QueryRow(`SELECT bytes, objects FROM stored_bytes WHERE organization_id = $1 AND kind = $2`, organizationID, k).Scan(&s.Bytes, &s.Objects)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	// An old replica beside a new one during an upgrade does not count.
	return Stored{max(0, s.Bytes), max(0, s.Objects)}, err
}
