package pipelines

import (
	"context"

	"stackyard/internal/platform/db"
)

// maxFavorites bounds the favorites that a list shows first.
const maxFavorites = 30

// SetFavorite says whether a user wants to see a pipeline first.
func (s *Service) SetFavorite(ctx context.Context, userID string, p *Pipeline, on bool) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		statement := `DELETE FROM pipeline_favorites WHERE user_id = $1 AND pipeline_id = $2`
		if on {
			statement = `INSERT INTO pipeline_favorites (user_id, pipeline_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`
		}
		_, err := q.Exec(statement, userID, p.ID)
		return err
	})
}

// Favorites returns the pipelines of the viewer's organization that the viewer wants to see first, by name.
func (s *Service) Favorites(ctx context.Context, v Viewer) (list []*Pipeline, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		ids, err := db.Strings(q, `
			SELECT p.id
			FROM pipeline_favorites f
			JOIN pipelines p ON p.id = f.pipeline_id
			WHERE f.user_id = $1 AND p.organization_id = $2 AND p.deleted_at IS NULL
			ORDER BY p.name, p.id
			LIMIT $3`, v.User.ID, v.Org.ID, maxFavorites)
		if err != nil || len(ids) == 0 {
			return err
		}
		found, err := ByIDs(q, v, ids)
		list = nil
		for _, id := range ids {
			if p := found[id]; p != nil {
				list = append(list, p)
			}
		}
		return err
	})
	return list, err
}
