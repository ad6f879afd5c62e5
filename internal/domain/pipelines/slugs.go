package pipelines

import "stackyard/internal/platform/db"

// Slugs returns the slugs of pipelines, by id.
func Slugs(q *db.Q, ids []string) (map[string]string, error) {
	slugs := make(map[string]string, len(ids))
	in, arg := q.In("id", 1, ids)
	err := db.Each(q, func(scan db.Scan) error {
		var id, slug string
		err := scan(&id, &slug)
		slugs[id] = slug
		return err
	}, `SELECT id, slug FROM pipelines WHERE `+in, arg)
	return slugs, err
}
