package builds

import (
	"context"

	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/db"
)

// MetaData returns the value under a key of a build, and whether there is one.
func (s *Reader) MetaData(ctx context.Context, orgID, buildID, key string) (value string, ok bool, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		value, ok, err = metadata.Get(q, orgID, buildID, key)
		return err
	})
	return value, ok, err
}

// MetaDataKeys returns the keys of a build's meta-data, sorted.
func (s *Reader) MetaDataKeys(ctx context.Context, orgID, buildID string) (keys []string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		keys, err = metadata.Keys(q, orgID, buildID)
		return err
	})
	return keys, err
}
