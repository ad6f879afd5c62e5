package builds

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// The meta-data of a build is texts under keys, with which jobs tell later ones what they found out, and
// block steps what a person answered.

const (
	// maxMetaData is the size of the largest value, in bytes.
	maxMetaData = 100_000
	// maxKeys and maxAllMetaData bound what all meta-data of a build takes: it is shown with the build.
	maxKeys        = 1_000
	maxAllMetaData = 4 << 20
)

// A MetaDatum is one value and its key.
type MetaDatum struct{ Key, Value string }

// check returns what is wrong with a key or a value.
func (d MetaDatum) check() error {
	if n := utf8.RuneCountInString(d.Key); n == 0 || n > maxName {
		return core.Errorf(core.Unprocessable, "A meta-data key must have 1 to %d characters, not %d", maxName, n)
	}
	if len(d.Value) > maxMetaData {
		return core.Errorf(core.Unprocessable, "The meta-data value of %q has %d bytes; %d are the most", d.Key, len(d.Value), maxMetaData)
	}
	return nil
}

// SetMetaData gives a build all of the meta-data or, when something is wrong with any of it, none. Where
// a key comes twice, the last one counts. What an agent tells of the commit under [GitCommitKey] is
// noted of the build as well.
func (s *Service) SetMetaData(ctx context.Context, orgID, buildID string, data []MetaDatum) error {
	metaData := make(map[string]string, len(data))
	for _, d := range data {
		if err := d.check(); err != nil {
			return err
		}
		metaData[d.Key] = d.Value
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("builds", buildID); err != nil {
			return err
		}
		b, err := byID(q, orgID, buildID)
		if err != nil {
			return err
		}
		if err := setMetaData(q, b, metaData); err != nil {
			return err
		}
		if text, ok := metaData[GitCommitKey]; ok {
			if err := resolveCommit(q, b, text); err != nil {
				return err
			}
		}
		q.Announce(Topic(b.ID))
		return nil
	})
}

// MetaData returns the value under a key of a build, and whether there is one.
func (s *Service) MetaData(ctx context.Context, orgID, buildID, key string) (value string, ok bool, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`
			SELECT m.value FROM build_meta_data m JOIN builds b ON b.id = m.build_id
			WHERE b.organization_id = $1 AND b.id = $2 AND m.key = $3`, orgID, buildID, key).Scan(&value)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", false, nil
	}
	return value, err == nil, err
}

// MetaDataKeys returns the keys of a build's meta-data, sorted.
func (s *Service) MetaDataKeys(ctx context.Context, orgID, buildID string) (all []string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		all, err = db.All(q, scanID, `
			SELECT m.key FROM build_meta_data m JOIN builds b ON b.id = m.build_id
			WHERE b.organization_id = $1 AND b.id = $2
			ORDER BY m.key`, orgID, buildID)
		return err
	})
	return all, err
}

// setMetaData gives a build, whose lock is held, meta-data. What it has already under another key stays.
func setMetaData(q *db.Q, b *Build, metaData map[string]string) error {
	if len(metaData) == 0 {
		return nil
	}
	rows := newRows(`INSERT INTO build_meta_data (build_id, organization_id, pipeline_id, key, value) VALUES`, `
		ON CONFLICT (build_id, key) DO UPDATE SET value = excluded.value`)
	for _, key := range slices.Sorted(slices.Values(keys(metaData))) {
		rows.add(b.ID, b.OrganizationID, b.PipelineID, key, metaData[key])
	}
	if err := rows.insert(q); err != nil {
		return err
	}
	var count, bytes int
	err := q.QueryRow(`
		SELECT COUNT(*), SUM(OCTET_LENGTH(key) + OCTET_LENGTH(value)) FROM build_meta_data WHERE build_id = $1`, b.ID).Scan(&count, &bytes)
	if err != nil {
		return err
	}
	if count > maxKeys || bytes > maxAllMetaData {
		return core.Errorf(core.Unprocessable, "The build would have %d meta-data keys and %d bytes of meta-data; %d keys and %d bytes are the most", count, bytes, maxKeys, maxAllMetaData)
	}
	return nil
}

type metaDatumRow struct {
	buildID string
	MetaDatum
}

// metaDataOf returns the meta-data of builds, by their ids.
func metaDataOf(q *db.Q, buildIDs []string, budget *db.Budget) (map[string]map[string]string, error) {
	in, arg := q.In("build_id", 1, buildIDs)
	data, err := db.All(q, db.Within(budget, func(scan db.Scan) (d metaDatumRow, err error) {
		return d, scan(&d.buildID, &d.Key, &d.Value)
	}), `SELECT build_id, key, value FROM build_meta_data WHERE `+in, arg)
	byBuild := make(map[string]map[string]string, len(buildIDs))
	for _, id := range buildIDs {
		byBuild[id] = map[string]string{}
	}
	for _, d := range data {
		byBuild[d.buildID][d.Key] = d.Value
	}
	return byBuild, err
}
