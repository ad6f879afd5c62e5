package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/tablecopy"
)

// Verify reads all objects of a snapshot and checks rows, checksums and sizes.
func (r *Repository) Verify(ctx context.Context, s *Snapshot) error {
	for _, t := range s.Tables {
		sum, err := r.sumOf(ctx, t)
		if err != nil {
			return err
		}
		if sum != t.Sum {
			return fmt.Errorf("table %s has %d rows, want %d, or another checksum: %w", t.Name, sum.Rows, t.Rows, ErrDamaged)
		}
	}
	return r.eachBlob(ctx, s, func(ctx context.Context, e entry) error {
		size, err := io.Copy(io.Discard, &blobReader{ctx: ctx, r: r, chunks: e.Chunks})
		if err == nil && size != e.Size {
			err = ErrDamaged
		}
		if err != nil {
			return fmt.Errorf("blob %s: %w", e.Key, err)
		}
		return nil
	})
}

func (r *Repository) sumOf(ctx context.Context, t Table) (tablecopy.Sum, error) {
	i := 0
	return tablecopy.SumOf(t.Table, func() ([]byte, error) {
		if i == len(t.Chunks) {
			return nil, nil
		}
		i++
		return r.get(ctx, t.Chunks[i-1])
	})
}

// eachBlob calls fn with the blobs of a snapshot, several at once.
func (r *Repository) eachBlob(ctx context.Context, s *Snapshot, fn func(ctx context.Context, e entry) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var listing error
	var count int64
	for e, err := range r.entries(ctx, s) {
		if err != nil {
			listing = err
			break
		}
		count++
		group.Go(func() error { return fn(ctx, e) })
	}
	err := group.Wait()
	switch {
	case err != nil:
		return err
	case listing != nil:
		return listing
	case count != s.Blobs.Count:
		return fmt.Errorf("the index has %d blobs, want %d: %w", count, s.Blobs.Count, ErrDamaged)
	}
	return nil
}

// blobReader reads a blob of a snapshot.
type blobReader struct {
	ctx    context.Context
	r      *Repository
	chunks []string
	rest   bytes.Reader
}

func (b *blobReader) Read(p []byte) (int, error) {
	for b.rest.Len() == 0 {
		if len(b.chunks) == 0 {
			return 0, io.EOF
		}
		content, err := b.r.get(b.ctx, b.chunks[0])
		if err != nil {
			return 0, err
		}
		b.rest.Reset(content)
		b.chunks = b.chunks[1:]
	}
	return b.rest.Read(p)
}

// Restored are figures of a restore.
type Restored struct {
	Continued  bool  // an earlier restore was continued
	Blobs      int64 // written now
	KeptBlobs  int64 // written by the earlier restore
	KeptChunks int   // of rows, written by the earlier restore
}

// Restore fills an empty database and an empty store from a snapshot. It continues an earlier restore of the same
// snapshot, and refuses a database or a store with anything else in it.
func (r *Repository) Restore(ctx context.Context, s *Snapshot, to *db.DB, blobs *blob.Store) (done Restored, err error) {
	done, err = r.restore(ctx, s, to, blobs)
	return done, explain(err)
}

func (r *Repository) restore(ctx context.Context, s *Snapshot, to *db.DB, blobs *blob.Store) (done Restored, err error) {
	unfinished, err := to.LoadingFrom(ctx)
	if err != nil {
		return done, err
	}
	done.Continued = unfinished != ""
	if !done.Continued {
		for _, err := range blobs.All(ctx) {
			if err != nil {
				return done, err
			}
			return done, fmt.Errorf("%s is not empty; restore never overwrites: name an empty place with --blobs", blobs)
		}
	}
	tables := make([]db.Table, len(s.Tables))
	sums := map[string]tablecopy.Sum{}
	for i, t := range s.Tables {
		tables[i], sums[t.Name] = t.Table, t.Sum
	}
	load, err := tablecopy.Start(ctx, to, "backup "+s.ID, s.Versions, tables)
	if err != nil {
		return done, err
	}
	defer load.Close()
	if err := r.restoreBlobs(ctx, s, blobs, &done); err != nil {
		return done, err
	}
	for _, t := range s.Tables {
		have := load.Loaded(t.Table)
		done.KeptChunks += have
		for _, id := range t.Chunks[min(have, len(t.Chunks)):] {
			chunk, err := r.get(ctx, id)
			if err == nil {
				err = load.Add(ctx, t.Table, chunk)
			}
			if err != nil {
				return done, err
			}
		}
	}
	return done, load.Finish(ctx, sums)
}

func (r *Repository) restoreBlobs(ctx context.Context, s *Snapshot, to *blob.Store, done *Restored) error {
	var written, kept atomic.Int64
	defer func() { done.Blobs, done.KeptBlobs = written.Load(), kept.Load() }()
	return r.eachBlob(ctx, s, func(ctx context.Context, e entry) error {
		// An object appears completely or not at all.
		size, err := to.Size(ctx, e.Key)
		if err == nil && size == e.Size {
			kept.Add(1)
			return nil
		}
		if err != nil && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
		written.Add(1)
		return to.Put(ctx, e.Key, &blobReader{ctx: ctx, r: r, chunks: e.Chunks}, e.Size)
	})
}

// Prune deletes all snapshots but the newest, and the objects that only they use. It returns how many snapshots and
// objects it deleted.
func (r *Repository) Prune(ctx context.Context, keep int, now time.Time) (snapshots, objects int, err error) {
	locked, unlock, err := r.lock(ctx, pruning, now)
	if err != nil {
		return 0, 0, explain(err)
	}
	defer unlock()
	if err := r.checkLocks(ctx, backingUp, now); err != nil {
		return 0, 0, err
	}
	snapshots, objects, err = r.prune(locked, keep)
	return snapshots, objects, explain(cause(locked, err))
}

func (r *Repository) prune(ctx context.Context, keep int) (snapshots, objects int, err error) {
	ids, err := r.ids(ctx)
	if err != nil {
		return 0, 0, err
	}
	drop := ids[:max(0, len(ids)-keep)]
	used := map[string]bool{}
	for _, id := range ids[len(drop):] {
		if err := r.markUsed(ctx, id, used); err != nil {
			return 0, 0, err
		}
	}
	for _, id := range drop {
		if err := r.store.Delete(ctx, snapshotKey(id)); err != nil {
			return snapshots, 0, err
		}
		snapshots++
	}
	for o, err := range r.store.List(ctx, objectsKey) {
		if err != nil {
			return snapshots, objects, err
		}
		if used[path.Base(o.Key)] {
			continue
		}
		if err := r.store.Delete(ctx, o.Key); err != nil {
			return snapshots, objects, err
		}
		objects++
	}
	return snapshots, objects, nil
}

// markUsed adds the objects of a snapshot.
func (r *Repository) markUsed(ctx context.Context, id string, used map[string]bool) error {
	s, err := r.Snapshot(ctx, id)
	if err != nil {
		return err
	}
	mark := func(ids []string) {
		for _, id := range ids {
			used[strings.Clone(id)] = true
		}
	}
	for _, t := range s.Tables {
		mark(t.Chunks)
	}
	mark(s.Blobs.Index)
	for e, err := range r.entries(ctx, s) {
		if err != nil {
			return err
		}
		mark(e.Chunks)
	}
	return nil
}

// Restart removes what an unfinished restore has written, so that any snapshot can be restored. It does nothing to a
// complete installation.
func Restart(ctx context.Context, to *db.DB, blobs *blob.Store) error {
	unfinished, err := to.LoadingFrom(ctx)
	if err != nil || unfinished == "" {
		return err
	}
	// The store was empty when the restore began.
	for o, err := range blobs.All(ctx) {
		if err == nil {
			err = blobs.Delete(ctx, o.Key)
		}
		if err != nil {
			return explain(err)
		}
	}
	return explain(tablecopy.Discard(ctx, to))
}
