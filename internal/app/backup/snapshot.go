package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/tablecopy"
)

// A Snapshot is one backup.
type Snapshot struct {
	ID        string      `json:"id"`
	CreatedAt time.Time   `json:"created_at"`
	Program   string      `json:"program"` // the version that made it
	Engine    db.Engine   `json:"engine"`
	Versions  db.Versions `json:"versions"`
	// KeyFingerprint identifies the secret key of the installation.
	KeyFingerprint string `json:"key_fingerprint"`
	// SecretKey is the secret key of the installation, if the backup contains it.
	SecretKey string  `json:"secret_key,omitempty"`
	Tables    []Table `json:"tables"`
	Blobs     Blobs   `json:"blobs"`
}

// A Table is a table of a snapshot.
type Table struct {
	db.Table
	tablecopy.Sum
	Chunks []string `json:"chunks"` // ids of objects
}

// Blobs are the blobs of a snapshot.
type Blobs struct {
	Count int64    `json:"count"`
	Bytes int64    `json:"bytes"`
	Index []string `json:"index"` // ids of objects with lines of entry, in the order of keys
}

// An entry is a blob of a snapshot.
type entry struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Chunks   []string  `json:"chunks"`
}

// Rows returns the number of rows in all tables.
func (s *Snapshot) Rows() (n int64) {
	for _, t := range s.Tables {
		n += t.Rows
	}
	return n
}

func snapshotKey(id string) string { return snapsKey + "/" + id }

func (r *Repository) putSnapshot(ctx context.Context, s *Snapshot) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	sealed := r.seal(text, snapshotKey(s.ID))
	return r.store.Put(ctx, snapshotKey(s.ID), bytes.NewReader(sealed), int64(len(sealed)))
}

// Snapshot returns a snapshot by its id, or the newest for "latest".
func (r *Repository) Snapshot(ctx context.Context, id string) (*Snapshot, error) {
	ids, err := r.ids(ctx)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s contains no complete backup", r.store)
	}
	if id == "latest" {
		id = ids[len(ids)-1]
	}
	if !slices.Contains(ids, id) {
		return nil, fmt.Errorf("%s contains no backup %q; see: stackyard backup list", r.store, id)
	}
	sealed, err := readAll(ctx, r.store, snapshotKey(id))
	if err != nil {
		return nil, err
	}
	s := &Snapshot{}
	text, err := r.unseal(sealed, snapshotKey(id))
	if err != nil || json.Unmarshal(text, s) != nil || s.ID != id {
		return nil, fmt.Errorf("backup %s of %s: %w", id, r.store, ErrDamaged)
	}
	return s, nil
}

// List returns all snapshots, the oldest first.
func (r *Repository) List(ctx context.Context) ([]*Snapshot, error) {
	ids, err := r.ids(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*Snapshot, len(ids))
	for i, id := range ids {
		if all[i], err = r.Snapshot(ctx, id); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ids returns the ids of all snapshots, the oldest first.
func (r *Repository) ids(ctx context.Context) (ids []string, err error) {
	for o, err := range r.store.List(ctx, snapsKey) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, path.Base(o.Key))
	}
	return ids, nil
}

// entries yields the blobs of a snapshot in the order of their keys. An error comes last.
func (r *Repository) entries(ctx context.Context, s *Snapshot) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for _, id := range s.Blobs.Index {
			text, err := r.get(ctx, id)
			if err != nil {
				yield(entry{}, err)
				return
			}
			lines := json.NewDecoder(bufio.NewReader(bytes.NewReader(text)))
			for {
				var e entry
				err := lines.Decode(&e)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					yield(entry{}, fmt.Errorf("index %s: %w", id, ErrDamaged))
					return
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// indexWriter collects entries into objects.
type indexWriter struct {
	r       *Repository
	lines   bytes.Buffer
	written int64
	blobs   Blobs
}

const indexSize = 1 << 20

func (w *indexWriter) add(ctx context.Context, e entry) error {
	if err := json.NewEncoder(&w.lines).Encode(e); err != nil {
		return err
	}
	w.blobs.Count++
	w.blobs.Bytes += e.Size
	if w.lines.Len() < indexSize {
		return nil
	}
	return w.flush(ctx)
}

func (w *indexWriter) flush(ctx context.Context) error {
	if w.lines.Len() == 0 {
		return nil
	}
	id, written, err := w.r.put(ctx, w.lines.Bytes())
	w.lines.Reset()
	w.written += written
	w.blobs.Index = append(w.blobs.Index, id)
	return err
}

// previous finds the entries of an earlier snapshot for keys that come in order.
type previous struct {
	next    func() (entry, error, bool)
	stop    func()
	current entry
	more    bool
}

func (r *Repository) previous(ctx context.Context, s *Snapshot) *previous {
	p := &previous{stop: func() {}}
	if s == nil {
		return p
	}
	p.next, p.stop = iter.Pull2(r.entries(ctx, s))
	p.advance()
	return p
}

func (p *previous) advance() {
	e, err, ok := p.next()
	// An index that cannot be read means only that all blobs are read again.
	p.current, p.more = e, ok && err == nil
}

// find returns the chunks of a blob if it has not changed since the earlier snapshot.
func (p *previous) find(o blob.Object) ([]string, bool) {
	for p.more && strings.Compare(p.current.Key, o.Key) < 0 {
		p.advance()
	}
	if !p.more || p.current.Key != o.Key || p.current.Size != o.Size || !p.current.Modified.Equal(o.Modified) {
		return nil, false
	}
	return p.current.Chunks, true
}
