package artifacts

import (
	"context"
	"fmt"
	"time"

	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/db"
)

// position returns the place of the artifact in the order in which they expire.
func (a Artifact) position() string {
	return fmt.Sprintf("%s %d %s", a.OrganizationID, a.CreatedAt.UnixMicro(), a.ID)
}

// StoredAfter returns some artifacts after a position, among those from before a time whose bytes the server stores, and
// the position of the last.
func StoredAfter(q *db.Q, position string, before time.Time, limit int) (list []Artifact, last string, err error) {
	var org, id string
	var created int64
	fmt.Sscanf(position, "%s %d %s", &org, &created, &id) // all are zero at the beginning
	list, err = db.All(q, scanArtifact, selectArtifact+`
		WHERE a.state = 'finished' AND a.location = '' AND a.created_at < $4 AND (a.organization_id, a.created_at, a.id) > ($1, $2, $3)
		ORDER BY a.organization_id, a.created_at, a.id LIMIT $5`, org, created, id, db.Micros(before), limit)
	if len(list) > 0 {
		last = list[len(list)-1].position()
	}
	return list, last, err
}

// MarkMissing records that the bytes of an artifact are gone: its state becomes error.
func (s *Service) MarkMissing(ctx context.Context, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		list, err := db.All(q, scanArtifact, selectArtifact+` WHERE a.id = $1 AND a.state = 'finished'`, id)
		if err != nil || len(list) == 0 {
			return err
		}
		n, err := q.Exec(`UPDATE artifacts SET state = $2 WHERE id = $1 AND state = $3`, id, StateError, StateFinished)
		if err != nil || n == 0 || !list[0].Kept() {
			return err
		}
		return usage.Add(q, list[0].OrganizationID, usage.Artifacts, usage.Stored{Bytes: -list[0].FileSize, Objects: -1})
	})
}
