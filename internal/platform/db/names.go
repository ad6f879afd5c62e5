package db

import "strings"

// Taken reports whether another row of an organization in a table has the name or the slug of the row with this id.
// Names differ by more than case; name_folded has them in lower case.
func Taken(q *Q, table, organizationID, id, name, slug string) (nameTaken, slugTaken bool, err error) {
	err = q.QueryRow(`
		SELECT COALESCE(MAX(CASE WHEN name_folded = $3 THEN 1 ELSE 0 END), 0), COALESCE(MAX(CASE WHEN slug = $4 THEN 1 ELSE 0 END), 0)
		FROM `+table+`
		WHERE organization_id = $1 AND id <> $2 AND (name_folded = $3 OR slug = $4)`,
		organizationID, id, strings.ToLower(name), slug).Scan(&nameTaken, &slugTaken)
	return nameTaken, slugTaken, err
}

// SlugsWithPrefix returns the slugs of an organization's rows in a table that begin with a prefix.
func SlugsWithPrefix(q *Q, table, organizationID, prefix string) (map[string]bool, error) {
	slugs, err := Strings(q, `SELECT slug FROM `+table+` WHERE organization_id = $1 AND slug LIKE $2 ESCAPE '\'`, organizationID, Like(prefix)+"%")
	set := make(map[string]bool, len(slugs))
	for _, slug := range slugs {
		set[slug] = true
	}
	return set, err
}
