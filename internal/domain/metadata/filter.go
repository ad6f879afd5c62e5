package metadata

import (
	"maps"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// indexedValue is the length of the value prefix in the indexes, in characters: values can be larger than an index
// entry.
const indexedValue = 100

// A Scope limits a search to organizations or to pipelines.
type Scope struct {
	Column string // organization_id or pipeline_id
	IDs    []string
}

// Restrict limits a statement about builds b in a scope to those that have all the wanted values. It returns the
// join and the order that the statement needs. An index holds the matching builds newest first, so one page of
// results costs the same however many builds there are.
func Restrict(q *db.Q, s *db.Statement, scope Scope, wanted map[string]string) (join, orderBy string) {
	for i, key := range slices.Sorted(maps.Keys(wanted)) {
		value := wanted[key]
		if i == 0 {
			s.WhereIn(q, "m."+scope.Column, scope.IDs)
			s.Where(`m.key = %s AND SUBSTR(m.value, 1, 100) = %s AND m.value = %s`, key, core.Cut(value, indexedValue), value)
			continue
		}
		s.Where("EXISTS (SELECT 1 FROM build_meta_data o WHERE o.build_id = b.id AND o.key = %s AND o.value = %s)", key, value)
	}
	return "\n\tJOIN build_meta_data m ON m.build_id = b.id", "m.build_id DESC"
}
