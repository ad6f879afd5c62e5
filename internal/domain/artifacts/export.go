package artifacts

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Exported returns artifacts of a build after an id, oldest first, as the API shows them to members, and the id of the
// last. Deleted ones are left out.
func (s *Service) Exported(q *db.Q, org *identity.Organization, p *pipelines.Pipeline, b *builds.Build, after string, limit int) (views []any, last string, err error) {
	list, err := db.All(q, scanArtifact, selectArtifact+`
	WHERE a.build_id = $1 AND a.id > $2 AND a.state <> $3 ORDER BY a.id LIMIT $4`, b.ID, after, StateDeleted, limit)
	for _, a := range list {
		views = append(views, s.view(&route.Request{Org: org}, p, b, a))
		last = a.ID
	}
	return views, last, err
}

// Newest returns the artifacts that were created last, among those whose bytes the server stores completely.
func Newest(q *db.Q, limit int) ([]Artifact, error) {
	return db.All(q, scanArtifact, selectArtifact+` WHERE a.state = $1 AND a.location = '' ORDER BY a.id DESC LIMIT $2`, StateFinished, limit)
}
