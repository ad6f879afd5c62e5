// Package tablecopy copies the tables of an installation in a form that does not depend on the engine: into backups
// and out of them, and from one database to another.
//
// A [Dump] reads all tables as of one moment while servers keep writing. Rows come in the order of their keys, encoded
// in chunks (rows.go). The same rows give the same bytes on both engines, so a checksum of these bytes verifies a
// copy. A [Load] writes chunks into an empty database and records each chunk with its rows, so that it can continue
// after the process was killed.
package tablecopy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"stackyard/internal/platform/db"
)

// A Dump reads the tables of an installation as of one moment.
type Dump struct {
	Versions db.Versions
	Tables   []db.Table

	parts map[string]*db.Q // by table
}

// ReadAll calls fn with a dump of all tables. On SQLite, test results are in a file of their own, whose moment is
// slightly later.
func ReadAll(ctx context.Context, d *db.DB, fn func(*Dump) error) error {
	parts, err := d.Schemas(ctx)
	if err != nil {
		return err
	}
	versions, err := d.Versions(ctx)
	if err != nil {
		return err
	}
	dump := &Dump{Versions: versions, parts: map[string]*db.Q{}}
	return dump.open(ctx, parts, fn)
}

// open opens a snapshot of each part inside of the previous one, and then calls fn.
func (d *Dump) open(ctx context.Context, parts []*db.DB, fn func(*Dump) error) error {
	if len(parts) == 0 {
		slices.SortFunc(d.Tables, func(a, b db.Table) int { return strings.Compare(a.Name, b.Name) })
		return fn(d)
	}
	return parts[0].Snapshot(ctx, func(q *db.Q) error {
		tables, err := q.Tables()
		if err != nil {
			return err
		}
		for _, t := range tables {
			d.parts[t.Name] = q
		}
		d.Tables = append(d.Tables, tables...)
		return d.open(ctx, parts[1:], fn)
	})
}

// A Sum describes the rows of a table.
type Sum struct {
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // of the encoded rows
}

// Each calls fn with the chunks of a table. The bytes of a chunk are valid during the call only.
func (d *Dump) Each(t db.Table, fn func(chunk []byte) error) (Sum, error) {
	sum := newSummer()
	q := d.parts[t.Name]
	if q == nil {
		return Sum{}, fmt.Errorf("table %s does not exist", t.Name)
	}
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	row := newRow(t)
	var chunk []byte
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		sum.add(chunk)
		err := fn(chunk)
		chunk = chunk[:0]
		return err
	}
	err := db.Each(q, func(scan db.Scan) (err error) {
		if err := scan(row.targets...); err != nil {
			return err
		}
		if chunk, err = row.appendTo(chunk); err != nil {
			return err
		}
		sum.rows++
		if len(chunk) >= chunkSize {
			return flush()
		}
		return nil
	}, `SELECT `+strings.Join(names, ", ")+` FROM `+t.Name+` ORDER BY `+strings.Join(t.Key, ", "))
	if err == nil {
		err = flush()
	}
	if err != nil {
		return Sum{}, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return sum.sum(), nil
}

// chunkSize is when a chunk is complete, in bytes. A chunk is larger by at most one row.
var chunkSize = 4 << 20

type summer struct {
	hash hash.Hash
	rows int64
}

func newSummer() *summer             { return &summer{hash: sha256.New()} }
func (s *summer) add(encoded []byte) { s.hash.Write(encoded) }
func (s *summer) sum() Sum           { return Sum{Rows: s.rows, SHA256: hex.EncodeToString(s.hash.Sum(nil))} }

// SumOf returns the sum of a table whose chunks next returns; next returns nil at the end.
func SumOf(t db.Table, next func() ([]byte, error)) (Sum, error) {
	sum := newSummer()
	for {
		chunk, err := next()
		if err != nil {
			return Sum{}, fmt.Errorf("table %s: %w", t.Name, err)
		}
		if chunk == nil {
			return sum.sum(), nil
		}
		rows, err := decode(t, chunk)
		if err != nil {
			return Sum{}, fmt.Errorf("table %s: %w", t.Name, err)
		}
		sum.rows += int64(len(rows))
		sum.add(chunk)
	}
}

// A Load fills an empty database.
type Load struct {
	target  *db.DB
	loaders []*db.Loader
	byTable map[string]*db.Loader
	tables  map[*db.Loader][]db.Table
}

// Start begins or continues filling an empty database with tables of a source.
func Start(ctx context.Context, d *db.DB, source string, versions db.Versions, tables []db.Table) (*Load, error) {
	parts, err := d.Schemas(ctx)
	if err != nil {
		return nil, err
	}
	l := &Load{target: d, byTable: map[string]*db.Loader{}, tables: map[*db.Loader][]db.Table{}}
	for _, part := range parts {
		loader, err := part.StartLoad(ctx, source, versions)
		if err == nil {
			l.loaders = append(l.loaders, loader)
			err = l.assign(ctx, part, loader, tables)
		}
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	for _, t := range tables {
		if l.byTable[t.Name] == nil {
			return nil, errors.Join(fmt.Errorf("this program does not know the table %s; use the program that made the source, or a newer one", t.Name), l.Close())
		}
	}
	return l, nil
}

// assign finds the tables of a part, which must have the columns of the source.
func (l *Load) assign(ctx context.Context, part *db.DB, loader *db.Loader, tables []db.Table) error {
	return part.Read(ctx, func(q *db.Q) error {
		existing, err := q.Tables()
		if err != nil {
			return err
		}
		for _, has := range existing {
			i := slices.IndexFunc(tables, func(t db.Table) bool { return t.Name == has.Name })
			if i < 0 {
				continue
			}
			if !slices.Equal(tables[i].Columns, has.Columns) || !slices.Equal(tables[i].Key, has.Key) {
				return fmt.Errorf("table %s has other columns here than in the source", has.Name)
			}
			l.byTable[has.Name] = loader
			l.tables[loader] = append(l.tables[loader], tables[i])
		}
		return nil
	})
}

// Loaded returns how many chunks of a table are loaded.
func (l *Load) Loaded(t db.Table) int { return l.byTable[t.Name].Loaded(t.Name) }

// Add writes the next chunk of a table.
func (l *Load) Add(ctx context.Context, t db.Table, chunk []byte) error {
	rows, err := decode(t, chunk)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	defer added()
	return l.byTable[t.Name].Add(ctx, t, rows)
}

// added is called after each chunk. Tests stop there.
var added = func() {}

// Finish compares all rows with the sums of the source, and makes the database usable.
func (l *Load) Finish(ctx context.Context, want map[string]Sum) error {
	err := ReadAll(ctx, l.target, func(d *Dump) error {
		for _, t := range d.Tables {
			sum, known := want[t.Name]
			if !known {
				continue
			}
			got, err := d.Each(t, func([]byte) error { return nil })
			if err != nil {
				return err
			}
			if got != sum {
				return fmt.Errorf("table %s has %d rows with checksum %.12s, the source has %d with %.12s; "+
					"the source changed meanwhile, or the copy is damaged: stop all servers and start again with --restart",
					t.Name, got.Rows, got.SHA256, sum.Rows, sum.SHA256)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The main schema is finished last: servers check it first.
	for _, loader := range slices.Backward(l.loaders) {
		if err := loader.Finish(ctx, l.tables[loader]); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the connections. The load can be continued later, unless it is finished.
func (l *Load) Close() error {
	var errs []error
	for _, loader := range l.loaders {
		errs = append(errs, loader.Close())
	}
	return errors.Join(errs...)
}

// Discard removes what an unfinished load has written, if there is one.
func Discard(ctx context.Context, d *db.DB) error {
	parts, err := d.Schemas(ctx)
	if err != nil {
		return err
	}
	for _, part := range slices.Backward(parts) {
		if err := part.DiscardLoad(ctx); err != nil {
			return err
		}
	}
	return nil
}
