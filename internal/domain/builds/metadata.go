package builds

import (
	"context"

	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/db"
)

// SetMetaData sets meta-data of a build: all entries, or none if one is invalid. If a key occurs twice, the last
// value counts. The value of [GitCommitKey] also fills in the build's commit.
func (s *Service) SetMetaData(ctx context.Context, orgID, buildID string, entries []metadata.Entry) error {
	values := make(map[string]string, len(entries))
	for _, e := range entries {
		if err := e.Check(); err != nil {
			return err
		}
		values[e.Key] = e.Value
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("builds", buildID); err != nil {
			return err
		}
		b, err := ByID(q, orgID, buildID)
		if err != nil {
			return err
		}
		if err := setMetaData(q, b, values); err != nil {
			return err
		}
		if text, ok := values[GitCommitKey]; ok {
			if err := resolveCommit(q, b, text); err != nil {
				return err
			}
		}
		q.Announce(Topic(b.ID))
		return nil
	})
}

func setMetaData(q *db.Q, b *Build, values map[string]string) error {
	return metadata.Set(q, metadata.Build{ID: b.ID, OrganizationID: b.OrganizationID, PipelineID: b.PipelineID}, values)
}

// MetaData returns the value under a key of a build, and whether there is one.
func (s *Service) MetaData(ctx context.Context, orgID, buildID, key string) (value string, ok bool, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		value, ok, err = metadata.Get(q, orgID, buildID, key)
		return err
	})
	return value, ok, err
}

// MetaDataKeys returns the keys of a build's meta-data, sorted.
func (s *Service) MetaDataKeys(ctx context.Context, orgID, buildID string) (keys []string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		keys, err = metadata.Keys(q, orgID, buildID)
		return err
	})
	return keys, err
}
