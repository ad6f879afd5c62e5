package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/tablecopy"
)

// blobChunk is the size of the parts of a blob, in bytes.
var blobChunk = 4 << 20

const (
	// parallel is how many objects are read and written at once.
	parallel = 8
	// blobBatch is how many blobs are read before their entries are written.
	blobBatch = 256
)

// A Source is the installation to back up.
type Source struct {
	DB             *db.DB
	Blobs          *blob.Store
	Program        string
	KeyFingerprint string
	SecretKey      string // "": not part of the backup
}

// Stats are figures of a backup.
type Stats struct {
	NewBlobs int64 // read, because no earlier backup has them
	Written  int64 // bytes
}

// Create makes a backup, while servers run. Blobs are copied after the tables: a row never refers to a blob that the
// backup lacks, except if it was deleted meanwhile.
func (r *Repository) Create(ctx context.Context, src Source, now time.Time) (*Snapshot, Stats, error) {
	s, stats, err := r.createSnapshot(ctx, src, now)
	return s, stats, explain(err)
}

func (r *Repository) createSnapshot(ctx context.Context, src Source, now time.Time) (*Snapshot, Stats, error) {
	locked, unlock, err := r.lock(ctx, backingUp, now)
	if err != nil {
		return nil, Stats{}, err
	}
	defer unlock()
	if err := r.checkLocks(ctx, pruning, now); err != nil {
		return nil, Stats{}, err
	}
	s, stats, err := r.copy(locked, src, now)
	return s, stats, cause(locked, err)
}

// copy copies everything and writes the snapshot.
func (r *Repository) copy(ctx context.Context, src Source, now time.Time) (*Snapshot, Stats, error) {
	s := &Snapshot{
		ID:             newID(now),
		CreatedAt:      now.UTC(),
		Program:        src.Program,
		Engine:         src.DB.Engine(),
		KeyFingerprint: src.KeyFingerprint,
		SecretKey:      src.SecretKey,
	}
	var stats Stats
	if err := r.copyTables(ctx, src.DB, s, &stats); err != nil {
		return nil, stats, err
	}
	if err := r.copyBlobs(ctx, src.Blobs, s, &stats); err != nil {
		return nil, stats, err
	}
	return s, stats, r.putSnapshot(ctx, s)
}

func (r *Repository) copyTables(ctx context.Context, d *db.DB, s *Snapshot, stats *Stats) error {
	return tablecopy.ReadAll(ctx, d, func(dump *tablecopy.Dump) error {
		s.Versions = dump.Versions
		for _, t := range dump.Tables {
			copied := Table{Table: t, Chunks: []string{}}
			sum, err := dump.Each(t, func(chunk []byte) error {
				id, written, err := r.put(ctx, chunk)
				stats.Written += written
				copied.Chunks = append(copied.Chunks, id)
				return err
			})
			if err != nil {
				return err
			}
			copied.Sum = sum
			s.Tables = append(s.Tables, copied)
		}
		return nil
	})
}

func (r *Repository) copyBlobs(ctx context.Context, from *blob.Store, s *Snapshot, stats *Stats) error {
	var earlier *Snapshot
	if ids, err := r.ids(ctx); err != nil {
		return err
	} else if len(ids) > 0 {
		earlier, _ = r.Snapshot(ctx, ids[len(ids)-1]) // a damaged one saves nothing
	}
	known := r.previous(ctx, earlier)
	defer known.stop()
	index := &indexWriter{r: r}
	var batch []blob.Object
	var chunks [][]string
	flush := func() error {
		entries, written, err := r.readBlobs(ctx, from, batch, chunks)
		if err != nil {
			return err
		}
		stats.Written += written
		for _, e := range entries {
			if e.Key == "" {
				continue // deleted meanwhile
			}
			if err := index.add(ctx, e); err != nil {
				return err
			}
		}
		batch, chunks = batch[:0], chunks[:0]
		return nil
	}
	for o, err := range from.All(ctx) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(o.Key, "stackyard-check-") {
			continue
		}
		have, ok := known.find(o)
		if !ok {
			stats.NewBlobs++
		}
		batch, chunks = append(batch, o), append(chunks, have)
		if len(batch) == blobBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := index.flush(ctx); err != nil {
		return err
	}
	stats.Written += index.written
	s.Blobs = index.blobs
	return nil
}

// readBlobs returns the entries of blobs and reads those without known chunks. An entry without a key belongs to a
// blob that no longer exists.
func (r *Repository) readBlobs(ctx context.Context, from *blob.Store, blobs []blob.Object, known [][]string) ([]entry, int64, error) {
	entries := make([]entry, len(blobs))
	var written atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, o := range blobs {
		entries[i] = entry{Key: o.Key, Size: o.Size, Modified: o.Modified, Chunks: known[i]}
		if known[i] != nil {
			continue
		}
		group.Go(func() error {
			n, err := r.readBlob(ctx, from, &entries[i])
			written.Add(n)
			if errors.Is(err, blob.ErrNotFound) {
				entries[i] = entry{}
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	return entries, written.Load(), err
}

// readBlob stores a blob in chunks.
func (r *Repository) readBlob(ctx context.Context, from *blob.Store, e *entry) (written int64, err error) {
	content, err := from.Open(ctx, e.Key, 0, -1)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	buffer := make([]byte, min(int64(blobChunk), e.Size+1))
	e.Size, e.Chunks = 0, []string{}
	for {
		n, err := io.ReadFull(content, buffer)
		if n > 0 {
			id, more, err := r.put(ctx, buffer[:n])
			if err != nil {
				return written, err
			}
			written += more
			e.Size += int64(n)
			e.Chunks = append(e.Chunks, id)
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return written, nil
		case err != nil:
			return written, fmt.Errorf("read %s of %s: %w", e.Key, from, err)
		}
	}
}
