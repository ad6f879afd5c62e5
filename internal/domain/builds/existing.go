package builds

import "stackyard/internal/platform/db"

// Existing returns those of some ids that are ids of builds.
func Existing(q *db.Q, ids []string) (map[string]bool, error) {
	in, arg := q.In("id", 1, ids)
	found, err := db.Strings(q, `SELECT id FROM builds WHERE `+in, arg)
	exists := make(map[string]bool, len(found))
	for _, id := range found {
		exists[id] = true
	}
	return exists, err
}
