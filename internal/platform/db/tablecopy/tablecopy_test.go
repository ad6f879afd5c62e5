package tablecopy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func init() { chunkSize = 1 << 10 }

var engines = []db.Engine{db.SQLite, db.PostgreSQL}

// eachPair runs a test for every pair of a filled source and an empty target.
func eachPair(t *testing.T, fn func(t *testing.T, from, to *db.DB)) {
	for _, a := range engines {
		for _, b := range engines {
			t.Run(fmt.Sprintf("%s to %s", a, b), func(t *testing.T) {
				from := dbtest.New(t, a)
				if _, err := from.Results(t.Context()); err != nil {
					t.Fatal(err)
				}
				fill(t, from)
				fn(t, from, dbtest.Open(t, dbtest.EmptyURL(t, b)))
			})
		}
	}
}

// fill writes rows of every kind of column, enough for several chunks.
func fill(t *testing.T, d *db.DB) {
	t.Helper()
	err := d.Write(t.Context(), func(q *db.Q) error {
		long := strings.Repeat("x", chunkSize/2+1)
		for i := range 5 {
			if _, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, $2)`, fmt.Sprintf("é%d-\t\"'", i), long); err != nil {
				return err
			}
		}
		for _, text := range []string{
			`INSERT INTO organizations (id, slug, name, features, limits, created_at) VALUES ('o', 'acme', 'Acme', '{}', '{}', 1)`,
			`INSERT INTO users (id, email, name, created_at) VALUES ('u', 'ada@acme.test', 'Ada', 1)`,
			`INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at) VALUES ('o', 'u', 'admin', '[]', '', -1)`,
			`INSERT INTO events (id, organization_id, name, facts, created_at) VALUES ('1', 'o', 'a', '{}', 1), ('2', 'o', 'b', '{}', 2)`,
			`DELETE FROM events WHERE name = 'b'`,
		} {
			if _, err := q.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// transfer copies everything, and stops after a number of chunks in this call.
func transfer(ctx context.Context, from, to *db.DB, limit int) error {
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	added = func() {
		if limit--; limit == 0 {
			cancel(errStopped)
		}
	}
	_, err := Copy(stop, from, to, "the test")
	if err != nil && context.Cause(stop) == errStopped {
		return errStopped
	}
	return err
}

var errStopped = errors.New("stopped")

func TestCopy_ContinuesAfterEachChunk(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to *db.DB) {
		ctx := t.Context()
		calls := 0
		for {
			calls++
			err := transfer(ctx, from, to, 6)
			if err == nil {
				break
			}
			if !errors.Is(err, errStopped) {
				t.Fatal(err)
			}
			if err := to.Migrate(ctx); err == nil || !strings.Contains(err.Error(), "only partly filled from the test") {
				t.Fatalf("a server could use the database: %v", err)
			}
		}
		if calls < 2 {
			t.Errorf("copied in %d calls", calls)
		}
		if err := to.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		if err := to.Write(ctx, func(q *db.Q) error {
			var seq int64
			// References are checked again, and numbers continue after a deleted row.
			if err := q.QueryRow(`INSERT INTO events (id, organization_id, name, facts, created_at) VALUES ('3', 'o', 'c', '{}', 3) RETURNING seq`).Scan(&seq); err != nil {
				return err
			}
			if seq != 3 {
				t.Errorf("the next number is %d, want 3", seq)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		err := to.Write(ctx, func(q *db.Q) error {
			_, err := q.Exec(`INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at) VALUES ('nowhere', 'u', 'admin', '[]', '', 1)`)
			return err
		})
		if err == nil {
			t.Error("a reference to a missing row was accepted")
		}
		if err := transfer(ctx, from, to, 100); !errors.Is(err, db.ErrNotEmpty) {
			t.Errorf("filled a second time: %v", err)
		}
	})
}

func TestCopy_DetectsASourceThatChanged(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to *db.DB) {
		ctx := t.Context()
		if err := transfer(ctx, from, to, 3); !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		if err := from.Write(ctx, func(q *db.Q) error {
			_, err := q.Exec(`UPDATE events SET name = 'other'`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := transfer(ctx, from, to, 100); err == nil || !strings.Contains(err.Error(), "--restart") {
			t.Fatalf("got error %v", err)
		}
		if err := Discard(ctx, to); err != nil {
			t.Fatal(err)
		}
		if err := transfer(ctx, from, to, 100); err != nil {
			t.Fatal(err)
		}
	})
}

// A dump sees one moment, whatever is written while it runs.
func TestReadAll_SeesOneMoment(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d)
		err := ReadAll(t.Context(), d, func(dump *Dump) error {
			fillMore := func(q *db.Q) error {
				_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ('late', 'x')`)
				return err
			}
			if err := d.Write(t.Context(), fillMore); err != nil {
				return err
			}
			for _, table := range dump.Tables {
				sum, err := dump.Each(table, func([]byte) error { return nil })
				if err != nil {
					return err
				}
				if table.Name == "installation" && sum.Rows != 5 {
					t.Errorf("%d rows, want 5", sum.Rows)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	table := db.Table{Columns: []db.Column{{Name: "a", Kind: db.TextColumn}, {Name: "b", Kind: db.IntegerColumn}, {Name: "c", Kind: db.BooleanColumn}, {Name: "d", Kind: db.BytesColumn}}}
	f.Add([]byte{tagText, 1, 'x', tagInt, 2, tagTrue, tagBytes, 1, 0})
	f.Fuzz(func(t *testing.T, chunk []byte) {
		rows, err := decode(table, chunk)
		if err == nil && len(chunk) > 0 && len(rows) == 0 {
			t.Error("no rows and no error")
		}
	})
}
