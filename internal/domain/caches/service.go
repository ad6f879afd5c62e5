package caches

import (
	"context"
	"slices"
	"time"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// The messages that published agents know.
var (
	errNoEntry  = core.Errorf(core.NotFound, "Cache entry not found")
	errNoUpload = core.Errorf(core.NotFound, "No upload of a cache found; it may have taken too long")
)

// usedEvery is how exactly it is recorded when an entry was used last.
const usedEvery = 10 * time.Minute

// Find returns the entry of an address that a build finds, and whether it is one with another key, or a NotFound error. used records
// that the entry was used.
func (s *Service) Find(ctx context.Context, org *identity.Organization, buildID string, a Address, used bool) (e *Entry, fallback bool, err error) {
	if err := a.check(); err != nil {
		return nil, false, err
	}
	var stale bool
	err = s.db.Read(ctx, func(q *db.Q) error {
		scope, err := ScopeOf(q, org, buildID)
		if err != nil {
			return err
		}
		if e, fallback, err = find(q, scope, a); err != nil {
			return err
		}
		stale, err = usedBefore(q, e.ID, s.clock().Add(-usedEvery))
		return err
	})
	if err == nil && used && stale {
		err = s.db.Write(ctx, func(q *db.Q) error { return setUsed(q, e.ID, s.clock()) })
	}
	return e, fallback, err
}

// An Upload is an entry that is being saved. Missing are the blobs that the server does not have, by the position of the first
// piece of the entry with that content.
type Upload struct {
	ID      string
	Missing map[int]Stored
}

// Begin starts to save an entry, and returns what is to be uploaded. It returns a Conflict error if the entry exists.
func (s *Service) Begin(ctx context.Context, org *identity.Organization, buildID string, a Address, blobs []Blob) (up Upload, err error) {
	if err := a.check(); err != nil {
		return up, err
	}
	if err := checkBlobs(a.Store, blobs); err != nil {
		return up, err
	}
	e := Entry{Store: a.Store, Key: a.key(), Blobs: blobs, OrganizationID: org.ID, CreatedAt: s.clock()}
	if a.Store == OnServer {
		for _, b := range blobs {
			e.Size += b.Size
		}
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		scope, err := ScopeOf(q, org, buildID)
		if err != nil {
			return err
		}
		e.ID, e.PipelineID, e.Scope, e.Protected = core.NewID(), scope.PipelineID, scope.Saves, scope.Protected
		if err := q.LockName(lockName(e.PipelineID)); err != nil {
			return err
		}
		exists, err := hasEntry(q, &e, a)
		if err != nil {
			return err
		}
		if exists {
			return core.Errorf(core.Conflict, "The cache has this key already; entries do not change")
		}
		if err := checkRoom(q, org, e.Size); err != nil {
			return err
		}
		if err := makeRoom(q, e.PipelineID, s.clock()); err != nil {
			return err
		}
		if err := insertEntry(q, &e, a); err != nil {
			return err
		}
		up = Upload{ID: e.ID}
		if e.Store == OnServer {
			up.Missing, err = linkBlobs(q, &e)
		}
		return err
	})
	return up, err
}

// checkRoom returns an error if an entry is larger than what its organization may store, together with those that are being uploaded.
func checkRoom(q *db.Q, org *identity.Organization, size int64) error {
	limit := quotas.Of(org).CacheBytes
	uploading, count, err := unfinished(q, org.ID)
	switch {
	case err != nil:
		return err
	case size > maxSize:
		return core.Errorf(core.Unprocessable, "A cache can have %d bytes, not %d", int64(maxSize), size)
	case limit > 0 && size > limit:
		return core.Errorf(core.Unprocessable, "The cache has %d bytes; the organization %s may store %d", size, org.Slug, limit)
	case limit > 0 && size+uploading > limit || count >= maxEntries:
		return &core.Error{Kind: core.Unavailable, Message: "Too many caches of the organization are being uploaded right now; try again", RetryAfter: 10}
	}
	return nil
}

// Commit ends the upload of an entry by a job of the same pipeline. It reports whether the entry was saved: if another job has saved
// it meanwhile, that one stays.
func (s *Service) Commit(ctx context.Context, org *identity.Organization, pipelineID, id string) (saved bool, err error) {
	id, ok := core.ParseID(id)
	if !ok {
		return false, errNoUpload
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := q.LockName(lockName(pipelineID)); err != nil {
			return err
		}
		e, err := entryOf(q, pipelineID, id)
		if err != nil {
			return err
		}
		if e.Finished {
			saved = true
			return nil
		}
		missing, err := missingBlobs(q, id)
		if err != nil {
			return err
		}
		if missing > 0 {
			return core.Errorf(core.Unprocessable, "%d of %d pieces of the cache did not arrive", missing, len(e.Blobs))
		}
		if saved, err = finish(q, e); err != nil {
			return err
		}
		if !saved {
			return removeEntries(q, []*Entry{e}, s.clock())
		}
		used, err := usage.Of(q, org.ID, usage.Caches)
		if limit := quotas.Of(org).CacheBytes; err == nil && limit > 0 && used.Bytes > limit {
			err = tasks.Add(q, tasks.Task{Kind: evictTask, RunAt: s.clock()})
		}
		return err
	})
	return saved, err
}

// Expire removes the entry of an address from the scope that a build saves in, for example because its bytes are damaged. Entries of other scopes
// stay: the build could not have saved them.
func (s *Service) Expire(ctx context.Context, org *identity.Organization, buildID string, a Address) error {
	if err := a.check(); err != nil {
		return err
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		scope, err := ScopeOf(q, org, buildID)
		if err != nil {
			return err
		}
		if err := q.LockName(lockName(scope.PipelineID)); err != nil {
			return err
		}
		e, err := exact(q, scope.PipelineID, scope.Saves, a)
		if err != nil || e == nil {
			return err
		}
		return removeEntries(q, []*Entry{e}, s.clock())
	})
}

// Blob returns a blob, or a NotFound error. The caller has checked access.
func (s *Service) Blob(ctx context.Context, id string) (b Stored, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		b, err = blobByID(q, id)
		return err
	})
	return b, err
}

// BlobsOf returns the blobs of an entry in their order.
func (s *Service) BlobsOf(ctx context.Context, id string) (list []Stored, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = blobsOf(q, id)
		return err
	})
	return list, err
}

// SetStored records that the bytes of a blob have arrived. It reports whether the blob still exists.
func (s *Service) SetStored(ctx context.Context, b Stored) (exists bool, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := q.LockName(lockName(b.PipelineID)); err != nil {
			return err
		}
		n, err := q.Exec(`UPDATE cache_blobs SET stored = TRUE WHERE id = $1 AND NOT stored`, b.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			_, err := blobByID(q, b.ID)
			exists = err == nil
			if core.KindOf(err) == core.NotFound {
				err = nil
			}
			return err
		}
		exists = true
		return usage.Add(q, b.OrganizationID, usage.Caches, usage.Stored{Bytes: b.Size, Objects: 1})
	})
	return exists, err
}

// lockName is held by transactions that add or remove entries of a pipeline.
func lockName(pipelineID string) string { return "caches of " + pipelineID }

// lockPipelines locks the pipelines of entries, in an order that no two transactions do differently.
func lockPipelines(q *db.Q, entries []*Entry) error {
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.PipelineID)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if err := q.LockName(lockName(id)); err != nil {
			return err
		}
	}
	return nil
}
