// Package metadata keeps the meta-data of builds: values under keys, with which jobs pass results to later jobs and
// block steps record what people entered.
//
// Values never expire before their build does. The package stores and finds them within the caller's transaction;
// package builds locks the build first and announces the change.
package metadata

import (
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// MaxKey bounds a key in characters, and MaxValue a value in bytes.
	MaxKey   = 255
	MaxValue = 100_000
	// maxKeys and maxBytes bound the meta-data of a build, which is shown with the build.
	maxKeys  = 1_000
	maxBytes = 4 << 20
)

// An Entry is a key and its value.
type Entry struct{ Key, Value string }

// Check returns an error for the caller if the key or the value is invalid.
func (e Entry) Check() error {
	if n := utf8.RuneCountInString(e.Key); n == 0 || n > MaxKey {
		return core.Errorf(core.Unprocessable, "A meta-data key must have 1 to %d characters, not %d", MaxKey, n)
	}
	if len(e.Value) > MaxValue {
		return core.Errorf(core.Unprocessable, "The meta-data value of %q has %d bytes; %d are the most", e.Key, len(e.Value), MaxValue)
	}
	return nil
}

// A Build identifies the build that meta-data belongs to.
type Build struct{ ID, OrganizationID, PipelineID string }

// Set adds values to a build, or replaces those with the same keys. The caller holds the build's lock.
func Set(q *db.Q, b Build, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	err := db.InsertMany(q, `INSERT INTO build_meta_data (build_id, organization_id, pipeline_id, key, value)`,
		slices.Sorted(maps.Keys(values)), func(key string) []any {
			return []any{b.ID, b.OrganizationID, b.PipelineID, key, values[key]}
		}, `ON CONFLICT (build_id, key) DO UPDATE SET value = excluded.value`)
	if err != nil {
		return err
	}
	var count, bytes int
	err = q.QueryRow(`
		SELECT COUNT(*), SUM(OCTET_LENGTH(key) + OCTET_LENGTH(value)) FROM build_meta_data WHERE build_id = $1`, b.ID).Scan(&count, &bytes)
	if err != nil {
		return err
	}
	if count > maxKeys || bytes > maxBytes {
		return core.Errorf(core.Unprocessable, "The build would have %d meta-data keys and %d bytes of meta-data; %d keys and %d bytes are the most", count, bytes, maxKeys, maxBytes)
	}
	return nil
}

// Get returns the value under a key of a build, and whether there is one.
func Get(q *db.Q, orgID, buildID, key string) (value string, ok bool, err error) {
	err = q.QueryRow(`
		SELECT value FROM build_meta_data
		WHERE organization_id = $1 AND build_id = $2 AND key = $3`, orgID, buildID, key).Scan(&value)
	if errors.Is(err, db.ErrNoRows) {
		return "", false, nil
	}
	return value, err == nil, err
}

// Keys returns the keys of a build, sorted.
func Keys(q *db.Q, orgID, buildID string) ([]string, error) {
	return db.Strings(q, `
		SELECT key FROM build_meta_data
		WHERE organization_id = $1 AND build_id = $2
		ORDER BY key`, orgID, buildID)
}

// OfBuilds returns the meta-data of builds, by build id. The budget bounds the bytes read.
func OfBuilds(q *db.Q, buildIDs []string, budget *db.Budget) (map[string]map[string]string, error) {
	type row struct {
		buildID string
		Entry
	}
	in, arg := q.In("build_id", 1, buildIDs)
	rows, err := db.All(q, db.Within(budget, func(scan db.Scan) (r row, err error) {
		return r, scan(&r.buildID, &r.Key, &r.Value)
	}), `SELECT build_id, key, value FROM build_meta_data WHERE `+in, arg)
	byBuild := make(map[string]map[string]string, len(buildIDs))
	for _, id := range buildIDs {
		byBuild[id] = map[string]string{}
	}
	for _, r := range rows {
		byBuild[r.buildID][r.Key] = r.Value
	}
	return byBuild, err
}

// RemoveSome removes at most limit values of a build, and returns how many.
func RemoveSome(q *db.Q, buildID string, limit int) (int64, error) {
	return q.DeleteSome(limit, "build_meta_data", `build_id = $1`, buildID)
}
