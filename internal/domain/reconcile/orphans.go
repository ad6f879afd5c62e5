package reconcile

import (
	"context"
	"strings"
	"time"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Orphans are blobs of builds that no longer exist.
type Orphans struct {
	Checked int   // objects
	Objects int   // without a build
	Bytes   int64 // of them
	Example string
}

const (
	// orphanAge is how old a blob must be to count: younger ones may be about to be removed, or belong to a build that
	// is being created.
	orphanAge = 24 * time.Hour
	// orphanBatch is how many builds are looked up at once.
	orphanBatch = 500
)

// FindOrphans lists all blobs and looks up their builds. Its memory does not grow with their number.
func FindOrphans(ctx context.Context, d *db.DB, store *blob.Store, now time.Time) (Orphans, error) {
	return eachOrphan(ctx, d, store, now, func(string) error { return nil })
}

// RemoveOrphans deletes the blobs of builds that no longer exist.
func RemoveOrphans(ctx context.Context, d *db.DB, store *blob.Store, now time.Time) (Orphans, error) {
	return eachOrphan(ctx, d, store, now, func(prefix string) error { return store.DeleteAll(ctx, prefix) })
}

// group is the old blobs of one build.
type group struct {
	prefix, buildID, example string
	objects                  int
	bytes                    int64
}

// eachOrphan calls remove with the prefix of each build that no longer exists and has old blobs. Keys begin with
// organization, pipeline and build, and are listed in order, so the blobs of a build come together.
func eachOrphan(ctx context.Context, d *db.DB, store *blob.Store, now time.Time, remove func(prefix string) error) (found Orphans, err error) {
	var batch []group
	flush := func() error {
		ids := make([]string, len(batch))
		for i, g := range batch {
			ids[i] = g.buildID
		}
		var exists map[string]bool
		err := d.Read(ctx, func(q *db.Q) (err error) {
			exists, err = builds.Existing(q, ids)
			return err
		})
		if err != nil {
			return err
		}
		for _, g := range batch {
			if exists[g.buildID] || g.objects == 0 {
				continue
			}
			found.Objects += g.objects
			found.Bytes += g.bytes
			found.Example = g.example
			if err := remove(g.prefix); err != nil {
				return err
			}
		}
		batch = batch[:0]
		return nil
	}
	for o, err := range store.All(ctx) {
		if err != nil {
			return found, err
		}
		parts := strings.SplitN(o.Key, "/", 4)
		if len(parts) < 4 || !areIDs(parts[:3]) {
			continue // not of a build; caches remove their bytes with their rows
		}
		found.Checked++
		prefix := strings.Join(parts[:3], "/")
		if len(batch) == 0 || batch[len(batch)-1].prefix != prefix {
			if len(batch) == orphanBatch {
				if err := flush(); err != nil {
					return found, err
				}
			}
			batch = append(batch, group{prefix: prefix, buildID: parts[2], example: o.Key})
		}
		if now.Sub(o.Modified) >= orphanAge {
			g := &batch[len(batch)-1]
			g.objects++
			g.bytes += o.Size
		}
	}
	return found, flush()
}

// newestArtifacts is how many artifacts are checked for their bytes.
const newestArtifacts = 200

// areIDs reports whether all texts are ids. A bucket can contain objects of other programs.
func areIDs(texts []string) bool {
	for _, text := range texts {
		if _, ok := core.ParseID(text); !ok {
			return false
		}
	}
	return true
}

// MissingArtifacts returns the prefixes of those of the newest artifacts that have no bytes.
func MissingArtifacts(ctx context.Context, d *db.DB, store *blob.Store) (missing []string, checked int, err error) {
	var list []artifacts.Artifact
	err = d.Read(ctx, func(q *db.Q) (err error) {
		list, err = artifacts.Newest(q, newestArtifacts)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for _, a := range list {
		some := false
		for _, err := range store.List(ctx, a.Prefix()) {
			if err != nil {
				return nil, 0, err
			}
			some = true
			break
		}
		if !some {
			missing = append(missing, a.Prefix())
		}
	}
	return missing, len(list), nil
}
